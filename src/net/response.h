// The answer of a server: status and headers at once, the body as it is read. AsyncResponse for coroutines,
// Response for threads that block: the same one, run in each call.
//
// A response holds its connection. At the end of the body the connection goes back to its pool; dropped
// earlier, it is closed. Move-only, but not while it is read; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/blocks.h"
#include "base/result.h"
#include "net/connect.h"
#include "net/http.h"
#include "net/pool.h"
#include "net/request.h"
#include "net/signing.h"
#include "net/task.h"

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

class AsyncResponse {
 public:
  // Whether the connection may be used again, where the two sides are in step at the end.
  enum class Keep { kIfInStep, kNever };
  // Waits for the head; interim responses (1xx) are passed over.
  static Task<Result<AsyncResponse>> receive(Lease lease, std::string_view method, const Timeouts& timeouts,
                                             Keep keep);

  int status() const { return head_.status; }
  bool is_success() const { return head_.status >= 200 && head_.status < 300; }
  const std::vector<HeaderField>& headers() const { return head_.headers; }
  const std::string* find_header(std::string_view name) const { return head_.find(name); }  // lower case
  // Of the body that is to come; nothing for chunked bodies.
  std::optional<uint64_t> length() const { return length_; }
  uint64_t received() const { return received_; }

  Task<Result<size_t>> read_some(std::span<std::byte> into);  // 0 at the end
  Task<Result<std::string>> read_all(uint64_t most_bytes);
  // The same in a block, where the answer says its length; kInvalid otherwise.
  Task<Result<Bytes>> read_all(Blocks& blocks, uint64_t most_bytes);
  // Reads what is left if that is little, so that the connection can be used again.
  Task<void> finish();

 private:
  enum class Framing { kNone, kLength, kChunked, kUntilClose };
  AsyncResponse() = default;
  Task<Status> receive_head();
  Status begin_body(std::string_view method);
  size_t take_buffered(std::span<std::byte> into);
  Task<Status> fill();
  Task<Result<size_t>> read_chunked(std::span<std::byte> into);
  void end();

  Lease lease_;
  Keep keep_ = Keep::kNever;
  ResponseHead head_;
  std::string buffer_;  // received and not yet taken
  size_t used_ = 0;     // of the buffer
  Framing framing_ = Framing::kNone;
  ChunkedDecoder chunks_;
  std::optional<uint64_t> length_;
  uint64_t left_ = 0;  // of the body, where its length is known
  uint64_t received_ = 0;
};

class Response {
 public:
  // Of a blocking stream.
  explicit Response(AsyncResponse response) : response_(std::move(response)) {}

  int status() const { return response_.status(); }
  bool is_success() const { return response_.is_success(); }
  const std::vector<HeaderField>& headers() const { return response_.headers(); }
  const std::string* find_header(std::string_view name) const { return response_.find_header(name); }
  std::optional<uint64_t> length() const { return response_.length(); }
  uint64_t received() const { return response_.received(); }

  Result<size_t> read_some(std::span<std::byte> into) { return response_.read_some(into).run_now(); }
  Result<std::string> read_all(uint64_t most_bytes) { return response_.read_all(most_bytes).run_now(); }
  void finish() { response_.finish().run_now(); }

 private:
  AsyncResponse response_;
};

// What an unwelcome answer means. Reads its body.
Error answer_error(const Request& request, Response& response);
Task<Error> read_answer_error(const Request& request, AsyncResponse& response);

}  // namespace millrace::net
