// What S3 calls each error: the one table from reasons to S3's codes and statuses, and answers made of it.
//
// Reasons of requests are declared here, those of stored things in store/reasons.h. S3 clients get XML,
// administration gets JSON. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "store/reasons.h"

namespace millrace::gateway {

inline constexpr Reason kAccessDenied{Code::kDenied, "access denied"};
inline constexpr Reason kBadDigest{Code::kInvalid, "bad digest"};
inline constexpr Reason kIncompleteBody{Code::kTruncated, "incomplete body"};
inline constexpr Reason kInsufficientStorage{Code::kNoSpace, "insufficient storage"};
inline constexpr Reason kInternalError{Code::kIo, "internal error"};
inline constexpr Reason kInvalidAccessKeyId{Code::kDenied, "unknown access key"};
inline constexpr Reason kInvalidArgument{Code::kInvalid, "invalid argument"};
inline constexpr Reason kInvalidBucketName{Code::kInvalid, "invalid bucket name"};
inline constexpr Reason kInvalidDigest{Code::kInvalid, "invalid digest"};
inline constexpr Reason kInvalidRange{Code::kInvalid, "invalid range"};
inline constexpr Reason kInvalidRequest{Code::kInvalid, "invalid request"};
inline constexpr Reason kInvalidTag{Code::kInvalid, "invalid tag"};
inline constexpr Reason kInvalidURI{Code::kInvalid, "invalid path"};
inline constexpr Reason kKeyTooLong{Code::kInvalid, "key too long"};
inline constexpr Reason kMalformedXML{Code::kInvalid, "malformed XML"};
inline constexpr Reason kMetadataTooLarge{Code::kInvalid, "metadata too large"};
inline constexpr Reason kMethodNotAllowed{Code::kInvalid, "method not allowed"};
inline constexpr Reason kMissingContentLength{Code::kInvalid, "missing content length"};
inline constexpr Reason kNoSuchBucketPolicy{Code::kNotFound, "no bucket policy"};
inline constexpr Reason kNoSuchIndex{Code::kNotFound, "no shard index"};
inline constexpr Reason kNoSuchMember{Code::kNotFound, "no such member"};
inline constexpr Reason kNoSuchSample{Code::kNotFound, "no such sample"};
inline constexpr Reason kNoSuchTagSet{Code::kNotFound, "no tags"};
inline constexpr Reason kNotFound{Code::kNotFound, "not found"};
inline constexpr Reason kNotImplemented{Code::kUnsupported, "not implemented"};
inline constexpr Reason kRequestTimeTooSkewed{Code::kDenied, "clocks differ"};
inline constexpr Reason kServiceUnavailable{Code::kUnavailable, "unavailable"};
inline constexpr Reason kSignatureDoesNotMatch{Code::kDenied, "wrong signature"};
inline constexpr Reason kNoSuchTransform{Code::kNotFound, "no such transform"};
inline constexpr Reason kTransformFailed{Code::kInvalid, "transform failed"};
inline constexpr Reason kTooLarge{Code::kTooLarge, "too large"};
inline constexpr Reason kXAmzContentSHA256Mismatch{Code::kInvalid, "wrong x-amz-content-sha256"};

// An answer that says no.
struct Refusal {
  const Reason* reason = &kInternalError;
  std::string message;
  std::string hint = {};           // what to try; empty: nothing to add
  std::string allow = {};          // the methods that are possible, where this one is not
  std::string content_range = {};  // how much there is, where a range asked for more
  std::vector<std::pair<std::string_view, std::string>> details = {};  // further elements

  std::string_view code() const;  // "NoSuchKey"
  int status() const;             // of HTTP
};

// The error's own reason where it is known here; else the usual one of its code.
Refusal refusal_of(const Error& error);

std::string refusal_xml(const Refusal& refusal, std::string_view resource, std::string_view request_id);
std::string refusal_json(const Refusal& refusal);

}  // namespace millrace::gateway
