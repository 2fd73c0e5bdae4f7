// Conditions of writes and deletes, against one record.
#include "store/store.h"

namespace millrace::store {

Status Condition::judge(std::string_view bucket, std::string_view key, const Record* current) const {
  if (only_if_absent && current != nullptr)
    return make_error(Code::kExists, "PreconditionFailed: {}/{} exists", bucket, key);
  if (!wants_object()) return {};
  if (current == nullptr) return make_error(Code::kNotFound, "{}/{}: there is no such object", bucket, key);
  if (only_if_etag && *only_if_etag != "*" && *only_if_etag != current->etag)
    return make_error(Code::kExists, "PreconditionFailed: {}/{} has the etag {}", bucket, key, current->etag);
  if (only_if_size && *only_if_size != current->size) {
    return make_error(Code::kExists, "PreconditionFailed: {}/{} has {} bytes, not {}", bucket, key,
                      current->size, *only_if_size);
  }
  if (only_if_modified_ms && *only_if_modified_ms / 1000 != current->modified_ms / 1000)
    return make_error(Code::kExists, "PreconditionFailed: {}/{} was modified at another time", bucket, key);
  return {};
}

}  // namespace millrace::store
