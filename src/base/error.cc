// Implements Error: names of codes, their HTTP statuses and exit codes, and errors from errno.
#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <system_error>

namespace millrace {

namespace {

struct Face {
  std::string_view name;
  int http_status;
  int exit_code;
};

Face face(Code code) {
  switch (code) {
    case Code::kInvalid:
      return {"invalid", 400, 2};
    case Code::kNotFound:
      return {"not_found", 404, 1};
    case Code::kExists:
      return {"exists", 409, 1};
    case Code::kCorrupt:
      return {"corrupt", 422, 1};
    case Code::kTruncated:
      return {"truncated", 422, 1};
    case Code::kUnsupported:
      return {"unsupported", 501, 1};
    case Code::kTooLarge:
      return {"too_large", 413, 1};
    case Code::kNoSpace:
      return {"no_space", 507, 1};
    case Code::kDenied:
      return {"denied", 403, 1};
    case Code::kIo:
      return {"io", 500, 1};
    case Code::kUnavailable:
      return {"unavailable", 503, 1};
    case Code::kCancelled:
      return {"cancelled", 503, 1};
  }
  return {"unknown", 500, 1};
}

Code code_of_errno(int value) {
  switch (value) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case EEXIST:
      return Code::kExists;
    case ENOSPC:
    case EDQUOT:
      return Code::kNoSpace;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kDenied;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
      return Code::kInvalid;
    default:
      return Code::kIo;
  }
}

}  // namespace

std::string_view code_name(Code code) {
  return face(code).name;
}
int http_status(Code code) {
  return face(code).http_status;
}
int exit_code(Code code) {
  return face(code).exit_code;
}

Error::Error(Code code, std::string message)
    : detail_(std::make_unique<Detail>(Detail{code, nullptr, std::move(message), {}, {}, {}, {}})) {}

Error::Error(const Reason& reason, std::string message)
    : detail_(std::make_unique<Detail>(Detail{reason.code, &reason, std::move(message), {}, {}, {}, {}})) {}

Error Error::within(std::string_view what) && {
  detail_->message = fmt::format("{}: {}", what, detail_->message);
  return std::move(*this);
}

Error Error::with_hint(std::string hint) && {
  detail_->hint = std::move(hint);
  return std::move(*this);
}

Error Error::at(std::string_view member, uint64_t offset) && {
  if (!detail_->place) detail_->place = Place{std::string(member), offset};
  return std::move(*this);
}

Error Error::in_shard(std::string_view name) && {
  if (detail_->shard.empty()) detail_->shard = name;
  return std::move(*this);
}

Error Error::during(std::string_view stage) && {
  if (detail_->stage.empty()) detail_->stage = stage;
  return std::move(*this);
}

Error Error::copy() const {
  Error other;
  other.detail_ = std::make_unique<Detail>(*detail_);
  return other;
}

Error make_system_error(int errno_value, std::string_view what) {
  return make_error(code_of_errno(errno_value), "{}: {}", what, std::generic_category().message(errno_value));
}

}  // namespace millrace
