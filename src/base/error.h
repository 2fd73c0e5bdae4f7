// Error: what went wrong, why, and what to try next.
//
// An Error is one of about a dozen codes plus a message that each layer extends once with what it was
// doing ("reading shard.tar: member a.jpg at byte 512: …") and an optional hint for the person who reads
// it. Programs act on the code, or on the reason where the code says too little; never on the message.
// Move-only and one pointer wide, so that a Result<T> on a hot path stays small. Not thread-shared.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace millrace {

enum class Code {
  kInvalid,      // the caller asked for something that makes no sense
  kNotFound,     // the named thing does not exist
  kExists,       // the named thing exists already
  kCorrupt,      // bytes do not say what they must say
  kTruncated,    // bytes end too early
  kUnsupported,  // valid, but not something we do
  kTooLarge,     // over a named maximum
  kNoSpace,      // drive or quota full
  kDenied,       // not allowed
  kIo,           // the operating system said no
  kUnavailable,  // a peer or process is gone or failing
  kCancelled,    // stopped on request
};

std::string_view code_name(Code code);
int http_status(Code code);
int exit_code(Code code);  // 1: the work failed; 2: the request was wrong

// A reason is declared once, by the layer that gives it, and compared by address:
//
//   inline constexpr Reason kNoSuchUpload{Code::kNotFound, "no such upload"};
//   return make_error(kNoSuchUpload, "{} has no upload {}", key, upload);
//   if (error.is(kNoSuchUpload)) …
struct Reason {
  Code code;
  std::string_view name;  // for logs
  Reason(const Reason&) = delete;
  constexpr Reason(Code reason_code, std::string_view reason_name) : code(reason_code), name(reason_name) {}
};

template <typename T>
class Result;

// Where in an archive: for programs, which should not have to read the message.
struct Place {
  std::string member;  // empty: none yet
  uint64_t offset = 0;
};

class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message);
  Error(const Reason& reason, std::string message);

  Code code() const { return detail_->code; }
  const Reason* reason() const { return detail_->reason; }  // null: the code says it all
  bool is(const Reason& reason) const { return detail_->reason == &reason; }
  const std::string& message() const { return detail_->message; }
  const std::string& hint() const { return detail_->hint; }
  const std::optional<Place>& place() const { return detail_->place; }
  const std::string& shard() const { return detail_->shard; }  // empty: not said
  std::string_view stage() const { return detail_->stage; }    // empty: not said

  // Puts what the caller was doing in front: "reading x" + "Input/output error".
  Error within(std::string_view what) &&;
  Error with_hint(std::string hint) &&;
  // The first place stays: it was nearest.
  Error at(std::string_view member, uint64_t offset) &&;
  // The shard or object it concerns, by name. The first stays.
  Error in_shard(std::string_view name) &&;
  // Which part of a longer way it happened on ("decode"): a literal. The first stays.
  Error during(std::string_view stage) &&;
  Error copy() const;

 private:
  template <typename T>
  friend class Result;
  Error() = default;  // no error at all: inside a Result that has a value

  struct Detail {
    Code code;
    const Reason* reason = nullptr;
    std::string message;
    std::string hint;
    std::optional<Place> place;
    std::string shard;
    std::string_view stage;
  };
  std::unique_ptr<Detail> detail_;
};

template <typename... Args>
Error make_error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Error make_error(const Reason& reason, fmt::format_string<Args...> format, Args&&... args) {
  return Error(reason, fmt::format(format, std::forward<Args>(args)...));
}

// The error of a failed system call: errno becomes a code and its text the message.
Error make_system_error(int errno_value, std::string_view what);

}  // namespace millrace
