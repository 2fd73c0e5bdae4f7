// Description: what a job is to do, as a person asked for it. Strict JSON in the registry and in requests.
//
// Addresses are those of the store that runs the job: mr://bucket/key. A kind says which of the settings mean
// something; any other is refused, so that nothing is silently left out. Values only; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::jobs {

enum class Kind {
  kMap,
  kTransform,
  kCopy,
  kIndex,
  kVerify,
  kPrefetch,
  kSort,
  kShuffle,
  kReshard,
  kMapReduce,
};
inline constexpr Kind kKinds[] = {Kind::kMap,     Kind::kTransform, Kind::kCopy, Kind::kIndex,
                                  Kind::kVerify,  Kind::kPrefetch,  Kind::kSort, Kind::kShuffle,
                                  Kind::kReshard, Kind::kMapReduce};
std::string_view kind_name(Kind kind);
Result<Kind> parse_kind(std::string_view name);
// All nodes work on it together, as ranks.
bool is_of_ranks(Kind kind);
bool has_output(Kind kind);

inline constexpr size_t kMostInputs = 1000;  // patterns, not objects
inline constexpr size_t kMostWords = 1000;   // of a command
inline constexpr size_t kMostFiles = 64;
inline constexpr size_t kMostFileBytes = 512 << 10;  // of all files together
inline constexpr uint32_t kMostAttempts = 100;

struct Description {
  Kind kind = Kind::kCopy;
  std::vector<std::string> inputs;  // addresses; brace ranges, globs
  bool recursive = false;           // inputs are prefixes
  std::string output;  // a prefix that ends in "/", or of shards that are cut anew a numbered name

  std::vector<std::string> command;          // map: for every sample
  std::vector<std::string> mapper;           // mapreduce: shard in, records out
  std::vector<std::string> combiner;         // empty: none
  std::vector<std::string> reducer;          // groups in, samples out
  std::map<std::string, std::string> files;  // beside the commands, by name
  std::string on_error = "abort";            // map: abort, skip, keep
  bool many = false;                         // map: samples of one sample

  std::string transform;  // its name
  std::string fields;     // verify: that every sample must have
  bool decode = false;    // verify: images too

  std::string by;  // sort: this field instead of the key
  bool number = false;
  bool reverse = false;
  uint64_t seed = 0;
  uint64_t max_bytes = 1'000'000'000;
  uint64_t max_samples = UINT64_MAX;

  uint64_t memory = uint64_t{256} << 20;  // of each task, or of each rank
  uint32_t attempts = 3;                  // of each task
  std::string note;                       // for people

  bool operator==(const Description&) const = default;
};

std::string encode(const Description& description);
// kInvalid says what cannot be understood or makes no sense.
Result<Description> decode_description(std::string_view text);
// What decode_description checks beyond the form.
Status check(const Description& description);

// mr://bucket/key
struct ObjectAddress {
  std::string bucket;
  std::string key;  // or a pattern
};
Result<ObjectAddress> parse_address(std::string_view address);

}  // namespace millrace::jobs
