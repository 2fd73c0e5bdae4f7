// HTTP/1.1 heads: the lean parser of requests and the builder of response heads. Pure.
//
// A RequestHead holds views into the bytes it was parsed from: they must stay where they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::net {

inline constexpr size_t kMaxRequestHead = 64 << 10;
inline constexpr size_t kMaxHeaders = 100;

struct HeaderView {
  std::string_view name;  // as sent; compare without case
  std::string_view value;
};

bool equal_names(std::string_view a, std::string_view b);  // ASCII, without case

struct RequestHead {
  std::string_view method;
  std::string_view target;
  std::string_view path;   // of the target, percent-encoded
  std::string_view query;  // behind "?"
  std::string_view host;   // of the target or the Host header, with its port; may be empty
  std::vector<HeaderView> headers;
  bool is_http11 = true;
  bool keep_alive = true;
  bool chunked = false;
  bool expects_continue = false;
  std::optional<uint64_t> content_length;

  std::optional<std::string_view> find(std::string_view name) const;
  std::string_view get(std::string_view name) const { return find(name).value_or(std::string_view()); }
};

// How long the head at the start of `bytes` is, with its empty line; nothing while that has not arrived.
std::optional<size_t> find_head_end(std::string_view bytes);

// What begins like this is no request, however it goes on: who speaks TLS here must not wait for the end of a head.
Status judge_first_byte(char first);

// Parses into `head`, whose vector is reused. kInvalid: not HTTP. kUnsupported: a version or transfer coding
// that we do not speak.
Status parse_request(std::string_view bytes, RequestHead& head);

std::string_view status_text(int status);

// One response head under construction; the string is reused from response to response.
class HeadBuilder {
 public:
  void start(int status);
  void add(std::string_view name, std::string_view value);
  void add(std::string_view name, uint64_t value);
  // Whole lines, as text() of another head gave them.
  void add_lines(std::string_view lines) { text_ += lines; }
  std::string_view text() const { return text_; }  // so far
  // Line breaks in a value would start another header: they are dropped with the rest of it.
  const std::string& finish(bool keep_alive);
  int status() const { return status_; }

 private:
  std::string text_;
  int status_ = 0;
};

// The text of the Date header now; formatted once a second per thread.
std::string_view current_date();

// Undoes "Transfer-Encoding: chunked", a push decoder: see AwsChunkedDecoder for the same idea.
class ChunkedDecoder {
 public:
  struct Step {
    size_t used = 0;
    std::string_view plain;
  };
  Result<Step> decode(std::string_view input);
  bool finished() const { return state_ == State::kEnd; }

 private:
  enum class State {
    kSize,
    kExtension,
    kSizeEnd,
    kData,
    kDataCr,
    kDataLf,
    kTrailerStart,
    kTrailer,
    kTrailerLineEnd,
    kTrailerEnd,
    kEnd
  };
  Status take(char c);
  State state_ = State::kSize;
  uint64_t left_ = 0;
  unsigned digits_ = 0;
  size_t line_ = 0;
};

}  // namespace millrace::net
