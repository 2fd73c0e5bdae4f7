// Conditions of writes and deletes, against one record.
#include "store/condition.h"
#include "store/reasons.h"

namespace millrace::store {

Status Condition::judge(std::string_view bucket, std::string_view key, const Record* current) const {
  if (only_if_absent && current != nullptr) return make_error(kConditionFailed, "{}/{} exists", bucket, key);
  if (!wants_object()) return {};
  if (current == nullptr) return no_such_object(bucket, key);
  if (only_if_etag && *only_if_etag != "*" && *only_if_etag != current->etag)
    return make_error(kConditionFailed, "{}/{} has the etag {}", bucket, key, current->etag);
  if (only_if_size && *only_if_size != current->size) {
    return make_error(kConditionFailed, "{}/{} has {} bytes, not {}", bucket, key, current->size,
                      *only_if_size);
  }
  if (only_if_modified_ms && *only_if_modified_ms / 1000 != current->modified_ms / 1000)
    return make_error(kConditionFailed, "{}/{} was modified at another time", bucket, key);
  return {};
}

}  // namespace millrace::store
