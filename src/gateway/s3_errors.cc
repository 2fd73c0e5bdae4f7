// The table of reasons, S3 codes and statuses.
#include "gateway/s3_errors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/assert.h"
#include "base/text.h"
#include "gateway/s3_xml.h"

namespace millrace::gateway {

namespace {

struct Row {
  const Reason* reason;
  std::string_view code;
  int status;
};

constexpr Row kRows[] = {
    {&store::kNoSuchObject, "NoSuchKey", 404},
    {&store::kNoSuchBucket, "NoSuchBucket", 404},
    {&store::kNoSuchUpload, "NoSuchUpload", 404},
    {&store::kNoSuchPart, "InvalidPart", 400},
    {&store::kPartsOutOfOrder, "InvalidPartOrder", 400},
    {&store::kPartTooSmall, "EntityTooSmall", 400},
    {&store::kConditionFailed, "PreconditionFailed", 412},
    {&store::kBucketExists, "BucketAlreadyOwnedByYou", 409},
    {&store::kBucketNotEmpty, "BucketNotEmpty", 409},
    {&store::kQuotaExceeded, "QuotaExceeded", 507},
    {&store::kUpstreamAway, "ServiceUnavailable", 503},
    {&store::kUpstreamSilent, "GatewayTimeout", 504},
    {&store::kUpstreamRefused, "BadGateway", 502},
    {&store::kUpstreamChanged, "ServiceUnavailable", 503},
    {&kAccessDenied, "AccessDenied", 403},
    {&kBadDigest, "BadDigest", 400},
    {&kIncompleteBody, "IncompleteBody", 400},
    {&kInsufficientStorage, "InsufficientStorage", 507},
    {&kInternalError, "InternalError", 500},
    {&kInvalidAccessKeyId, "InvalidAccessKeyId", 403},
    {&kInvalidArgument, "InvalidArgument", 400},
    {&kInvalidBucketName, "InvalidBucketName", 400},
    {&kInvalidDigest, "InvalidDigest", 400},
    {&kInvalidRange, "InvalidRange", 416},
    {&kInvalidRequest, "InvalidRequest", 400},
    {&kInvalidTag, "InvalidTag", 400},
    {&kInvalidURI, "InvalidURI", 400},
    {&kKeyTooLong, "KeyTooLongError", 400},
    {&kMalformedXML, "MalformedXML", 400},
    {&kMetadataTooLarge, "MetadataTooLarge", 400},
    {&kMethodNotAllowed, "MethodNotAllowed", 405},
    {&kMissingContentLength, "MissingContentLength", 411},
    {&kNoSuchBucketPolicy, "NoSuchBucketPolicy", 404},
    {&kNoSuchIndex, "NoSuchIndex", 404},
    {&kNoSuchMember, "NoSuchMember", 404},
    {&kNoSuchSample, "NoSuchSample", 404},
    {&kNoSuchTagSet, "NoSuchTagSet", 404},
    {&kNotFound, "NotFound", 404},
    {&kNotImplemented, "NotImplemented", 501},
    {&kRequestTimeTooSkewed, "RequestTimeTooSkewed", 403},
    {&kServiceUnavailable, "ServiceUnavailable", 503},
    {&kSignatureDoesNotMatch, "SignatureDoesNotMatch", 403},
    {&kNoSuchTransform, "NoSuchTransform", 404},
    {&kTransformFailed, "TransformFailed", 422},
    {&kTooLarge, "EntityTooLarge", 400},
    {&kXAmzContentSHA256Mismatch, "XAmzContentSHA256Mismatch", 400},
};

const Row* find_row(const Reason* reason) {
  const auto found = std::ranges::find(kRows, reason, &Row::reason);
  return found == std::end(kRows) ? nullptr : &*found;
}

const Reason& usual_reason(Code code) {
  switch (code) {
    case Code::kInvalid:
      return kInvalidArgument;
    case Code::kNotFound:
      return store::kNoSuchObject;
    case Code::kExists:
      return store::kConditionFailed;
    case Code::kUnsupported:
      return kNotImplemented;
    case Code::kTooLarge:
      return kTooLarge;
    case Code::kNoSpace:
      return kInsufficientStorage;
    case Code::kDenied:
      return kAccessDenied;
    case Code::kTruncated:
      return kIncompleteBody;
    case Code::kUnavailable:
    case Code::kCancelled:
      return kServiceUnavailable;
    case Code::kCorrupt:
    case Code::kIo:
      return kInternalError;
  }
  return kInternalError;
}

}  // namespace

std::string_view Refusal::code() const {
  const Row* row = find_row(reason);
  MR_ASSERT(row != nullptr);
  return row->code;
}

int Refusal::status() const {
  const Row* row = find_row(reason);
  MR_ASSERT(row != nullptr);
  return row->status;
}

Refusal refusal_of(const Error& error) {
  const bool is_known = find_row(error.reason()) != nullptr;
  return {is_known ? error.reason() : &usual_reason(error.code()), error.message(), error.hint()};
}

std::string refusal_xml(const Refusal& refusal, std::string_view resource, std::string_view request_id) {
  XmlWriter xml("Error", XmlWriter::Namespace::kNone);
  xml.add("Code", refusal.code());
  xml.add("Message", printable(refusal.message));
  if (!refusal.hint.empty()) xml.add("Hint", printable(refusal.hint));
  for (const auto& [name, text] : refusal.details) xml.add(name, text);
  xml.add("Resource", resource);
  xml.add("RequestId", request_id);
  return xml.finish();
}

std::string refusal_json(const Refusal& refusal) {
  nlohmann::ordered_json json = {{"code", refusal.code()}, {"message", printable(refusal.message)}};
  if (!refusal.hint.empty()) json["hint"] = printable(refusal.hint);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace millrace::gateway
