// Searches for an order, and remembers the states that lead nowhere.
#include "cluster/simulation/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/assert.h"

namespace millrace::cluster::simulation {

namespace {

class Search {
 public:
  explicit Search(const std::vector<Operation>& history) {
    // A get without an answer says nothing.
    for (const Operation& one : history) {
      if (one.is_known() || one.kind != Operation::Kind::kGet) operations_.push_back(one);
    }
    MR_ASSERT(operations_.size() <= 64);
  }

  bool run() {
    const size_t count = operations_.size();
    return go(count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1, 0);
  }

 private:
  // `left` are the operations that did not take effect yet.
  bool go(uint64_t left, uint64_t value) {
    uint64_t first_end = Operation::kNever;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if ((left >> i & 1) != 0) first_end = std::min(first_end, operations_[i].end);
    }
    if (first_end == Operation::kNever) return true;
    if (!dead_ends_.insert({left, value}).second) return false;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if ((left >> i & 1) == 0 || operations_[i].begin > first_end) continue;
      uint64_t next = value;
      const uint64_t rest = left & ~(uint64_t{1} << i);
      if (takes_effect(operations_[i], next) && go(rest, next)) return true;
    }
    return false;
  }

  // Whether the operation, at this moment, ends as it did.
  static bool takes_effect(const Operation& one, uint64_t& value) {
    switch (one.kind) {
      case Operation::Kind::kGet:
        return one.value == value;
      case Operation::Kind::kRemove:
        value = 0;
        return true;
      case Operation::Kind::kPutIfAbsent:
        if (one.is_known() && one.refused) return value != 0;
        if (value != 0) return false;
        value = one.id;
        return true;
      case Operation::Kind::kPut:
        value = one.id;
        return true;
    }
    return false;
  }

  std::vector<Operation> operations_;
  std::set<std::pair<uint64_t, uint64_t>> dead_ends_;
};

}  // namespace

bool is_linearizable(const std::vector<Operation>& history) {
  return Search(history).run();
}

std::string describe(const Operation& one) {
  constexpr const char* kNames[] = {"put", "put if absent", "remove", "get"};
  const std::string end = one.is_known() ? fmt::format("{}", one.end) : "never";
  std::string told;
  if (one.is_known() && one.kind == Operation::Kind::kGet) told = fmt::format(" -> {}", one.value);
  if (one.refused) told = " -> refused";
  return fmt::format("{:>12} to {:>12} us: {} #{}{}", one.begin, end, kNames[static_cast<size_t>(one.kind)],
                     one.id, told);
}

}  // namespace millrace::cluster::simulation
