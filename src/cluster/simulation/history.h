// History: what clients asked of one key and what they were told; and whether one order explains it all.
//
// An order explains a history if every operation takes effect at one moment between its begin and its end. A
// write whose outcome is unknown may take effect at any moment after its begin, or never.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace millrace::cluster::simulation {

struct Operation {
  enum class Kind : uint8_t { kPut, kPutIfAbsent, kRemove, kGet };
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  Kind kind = Kind::kGet;
  uint64_t id = 0;  // of a put: the value it writes; never 0
  uint64_t begin = 0;
  uint64_t end = kNever;  // kNever: the outcome is unknown
  uint64_t value = 0;     // what a get was told; 0: nothing is there
  bool refused = false;   // a put that must be the first found something there

  bool is_known() const { return end != kNever; }
};

// At most 64 operations.
bool is_linearizable(const std::vector<Operation>& history);

std::string describe(const Operation& operation);

}  // namespace millrace::cluster::simulation
