// The codes that S3 clients act on, each with its status.
#include "cluster/refusal.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "cluster/xml.h"

namespace millrace::cluster {

namespace {

constexpr std::pair<std::string_view, int> kStatuses[] = {
    {"AccessDenied", 403},
    {"BadDigest", 400},
    {"BucketAlreadyOwnedByYou", 409},
    {"BucketNotEmpty", 409},
    {"EntityTooLarge", 400},
    {"EntityTooSmall", 400},
    {"ExpiredToken", 400},
    {"IncompleteBody", 400},
    {"InsufficientStorage", 507},
    {"InternalError", 500},
    {"InvalidAccessKeyId", 403},
    {"InvalidArgument", 400},
    {"InvalidBucketName", 400},
    {"InvalidDigest", 400},
    {"InvalidPart", 400},
    {"InvalidPartOrder", 400},
    {"InvalidRange", 416},
    {"InvalidRequest", 400},
    {"InvalidTag", 400},
    {"InvalidURI", 400},
    {"KeyTooLongError", 400},
    {"MalformedXML", 400},
    {"MetadataTooLarge", 400},
    {"MethodNotAllowed", 405},
    {"MissingContentLength", 411},
    {"NoSuchBucket", 404},
    {"NoSuchBucketPolicy", 404},
    {"NoSuchIndex", 404},
    {"NoSuchKey", 404},
    {"NoSuchMember", 404},
    {"NoSuchSample", 404},
    {"NoSuchTagSet", 404},
    {"NoSuchUpload", 404},
    {"NotFound", 404},
    {"NotImplemented", 501},
    {"PreconditionFailed", 412},
    {"RequestTimeTooSkewed", 403},
    {"ServiceUnavailable", 503},
    {"SignatureDoesNotMatch", 403},
    {"XAmzContentSHA256Mismatch", 400},
};

// Store messages that begin with an S3 code speak for themselves.
std::string_view leading_code(std::string_view message) {
  const std::string_view word = message.substr(0, message.find_first_of(": "));
  for (const auto& [code, status] : kStatuses) {
    if (code == word) return code;
  }
  return {};
}

}  // namespace

int Refusal::status() const {
  for (const auto& [known, status] : kStatuses) {
    if (known == code) return status;
  }
  return 500;
}

Refusal refusal_of(const Error& error, About about) {
  const std::string_view leading = leading_code(error.message());
  if (!leading.empty()) return {std::string(leading), error.message(), error.hint()};
  std::string_view code = "InternalError";
  switch (error.code()) {
    case Code::kInvalid:
      code = "InvalidArgument";
      break;
    case Code::kNotFound:
      code = about == About::kBucket   ? "NoSuchBucket"
             : about == About::kUpload ? "NoSuchUpload"
                                       : "NoSuchKey";
      break;
    case Code::kExists:
      code = about == About::kBucket ? "BucketAlreadyOwnedByYou" : "PreconditionFailed";
      break;
    case Code::kUnsupported:
      code = "NotImplemented";
      break;
    case Code::kTooLarge:
      code = "EntityTooLarge";
      break;
    case Code::kNoSpace:
      code = "InsufficientStorage";
      break;
    case Code::kDenied:
      code = "AccessDenied";
      break;
    case Code::kTruncated:
      code = "IncompleteBody";
      break;
    case Code::kUnavailable:
    case Code::kCancelled:
      code = "ServiceUnavailable";
      break;
    case Code::kCorrupt:
    case Code::kIo:
      break;
  }
  return {std::string(code), error.message(), error.hint()};
}

std::string refusal_xml(const Refusal& refusal, std::string_view resource, std::string_view request_id) {
  XmlWriter xml("Error", XmlWriter::Namespace::kNone);
  xml.add("Code", refusal.code);
  xml.add("Message", printable(refusal.message));
  if (!refusal.hint.empty()) xml.add("Hint", printable(refusal.hint));
  for (const auto& [name, text] : refusal.details) xml.add(name, text);
  xml.add("Resource", resource);
  xml.add("RequestId", request_id);
  return xml.finish();
}

std::string refusal_json(const Refusal& refusal) {
  nlohmann::ordered_json json = {{"code", refusal.code}, {"message", printable(refusal.message)}};
  if (!refusal.hint.empty()) json["hint"] = printable(refusal.hint);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace millrace::cluster
