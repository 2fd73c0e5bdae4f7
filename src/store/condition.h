// Condition: what must hold at the moment a write or a delete becomes visible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/record.h"

namespace millrace::store {

struct Condition {
  bool only_if_absent = false;                 // If-None-Match: *
  std::optional<std::string> only_if_etag;     // If-Match; "*" means any existing object
  std::optional<uint64_t> only_if_size;        // x-amz-if-match-size
  std::optional<int64_t> only_if_modified_ms;  // x-amz-if-match-last-modified-time; compared to the second

  bool is_any() const { return only_if_absent || wants_object(); }
  bool wants_object() const { return only_if_etag || only_if_size || only_if_modified_ms; }
  // Against the object that is there; null: there is none. kConditionFailed where it does not hold, or
  // kNoSuchObject for something wanted of an object that is not there.
  Status judge(std::string_view bucket, std::string_view key, const Record* current) const;
};

}  // namespace millrace::store
