// Why the store refuses something, where the code alone says too little for whoever asked.
#pragma once

#include <string_view>

#include "base/error.h"

namespace millrace::store {

inline constexpr Reason kNoSuchBucket{Code::kNotFound, "no such bucket"};
inline constexpr Reason kNoSuchObject{Code::kNotFound, "no such object"};
inline constexpr Reason kNoSuchUpload{Code::kNotFound, "no such upload"};
inline constexpr Reason kBucketExists{Code::kExists, "bucket exists"};
inline constexpr Reason kBucketNotEmpty{Code::kExists, "bucket not empty"};
inline constexpr Reason kConditionFailed{Code::kExists, "condition failed"};
// The bucket's own limit, not the drives': no node takes more.
inline constexpr Reason kQuotaExceeded{Code::kNoSpace, "quota exceeded"};
inline constexpr Reason kNoSuchPart{Code::kInvalid, "no such part"};
inline constexpr Reason kPartsOutOfOrder{Code::kInvalid, "parts out of order"};
inline constexpr Reason kPartTooSmall{Code::kInvalid, "part too small"};

// Of buckets in front of other storage.
inline constexpr Reason kUpstreamAway{Code::kUnavailable, "upstream away"};
inline constexpr Reason kUpstreamSilent{Code::kUnavailable, "upstream silent"};
inline constexpr Reason kUpstreamRefused{Code::kUnavailable, "upstream refused"};
inline constexpr Reason kUpstreamChanged{Code::kUnavailable, "upstream changed"};

inline Error no_such_bucket(std::string_view name) {
  return make_error(kNoSuchBucket, "there is no bucket {}", name);
}
inline Error no_such_object(std::string_view bucket, std::string_view key) {
  return make_error(kNoSuchObject, "{}/{}: there is no such object", bucket, key);
}
inline Error no_such_upload(std::string_view bucket, std::string_view key, std::string_view upload) {
  return make_error(kNoSuchUpload, "{}/{} has no upload {}", bucket, key, upload);
}

}  // namespace millrace::store
