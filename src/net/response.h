// Response: the answer of a server: status and headers at once, the body as it is read.
//
// A Response holds its connection. At the end of the body the connection goes back to where it came from;
// dropped earlier, it is closed. Move-only; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http.h"
#include "net/signing.h"
#include "net/wire.h"

namespace millrace::net {

inline constexpr size_t kMaxHeadBytes = 64 << 10;
inline constexpr size_t kReadBytes = 256 << 10;  // stays in the second-level cache between socket and use

// The status line and headers of a response. Pure.
struct ResponseHead {
  int status = 0;
  std::vector<HeaderField> headers;  // lower-case names, in the order of the wire
  bool keep_alive = true;
  const std::string* find(std::string_view name) const;
};
// `text` is everything up to and with the empty line.
Result<ResponseHead> parse_response_head(std::string_view text);

class Response {
 public:
  // What happens with a connection that is in step and may be used again.
  using GiveBack = std::function<void(std::unique_ptr<Wire>)>;
  // Waits for the head; interim responses (1xx) are passed over.
  static Result<Response> receive(std::unique_ptr<Wire> wire, std::string_view method, GiveBack give_back);

  int status() const { return head_.status; }
  bool is_success() const { return head_.status >= 200 && head_.status < 300; }
  const std::vector<HeaderField>& headers() const { return head_.headers; }
  const std::string* find_header(std::string_view name) const { return head_.find(name); }  // lower case
  // Of the body that is to come; nothing for chunked bodies.
  std::optional<uint64_t> length() const { return length_; }
  uint64_t received() const { return received_; }

  Result<size_t> read_some(std::span<std::byte> into);  // 0 at the end
  Result<std::string> read_all(uint64_t most_bytes);
  // Reads what is left if that is little, so that the connection can be used again.
  void finish();

 private:
  enum class Framing { kNone, kLength, kChunked, kUntilClose };
  Response() = default;
  Status begin_body(std::string_view method);
  Result<size_t> take(std::span<std::byte> into);
  Status fill();
  Result<size_t> read_chunked(std::span<std::byte> into);
  void end();

  std::unique_ptr<Wire> wire_;
  GiveBack give_back_;
  ResponseHead head_;
  std::string buffer_;  // received and not yet taken
  size_t used_ = 0;     // of the buffer
  Framing framing_ = Framing::kNone;
  ChunkedDecoder chunks_;
  std::optional<uint64_t> length_;
  uint64_t left_ = 0;  // of the body, where its length is known
  uint64_t received_ = 0;
};

}  // namespace millrace::net
