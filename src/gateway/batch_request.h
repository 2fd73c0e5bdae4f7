// What a client may ask of POST bucket?batch, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::gateway {

inline constexpr size_t kMaxBatchEntries = 100'000;

// A sample, a member, a range, or the whole object.
struct BatchEntry {
  std::string object;
  std::optional<uint64_t> sample;
  std::optional<std::string> member;
  std::optional<std::string> range;
  std::string name;  // of the tar member, for members and ranges; empty: the member's or object's own
};

struct BatchRequest {
  std::vector<BatchEntry> entries;
  bool fail_on_missing = false;
};

// How many objects, lists, fields and values the text has at the most; kTooLarge where that is more than a
// batch of kMaxBatchEntries can have. So the memory that parsing takes is known before it is taken.
Result<uint64_t> count_elements(std::string_view text);

// A list of entries, or {"entries": […], "missing": "report" | "error"}.
Result<BatchRequest> parse_batch_request(std::string_view text);

}  // namespace millrace::gateway
