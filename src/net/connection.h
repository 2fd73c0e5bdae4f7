// Connection: one client's socket while the server talks to it: a request in, a response out, again and
// again.
//
// It lives on one io thread and is only touched there; its bytes go through a Stream. A handler reads the
// request, takes as much of the body as it wants, and sends exactly one response. Errors of the socket end
// the connection; handlers pass them on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/blocks.h"
#include "base/buffer.h"
#include "base/result.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/task.h"
#include "net/tls.h"

namespace millrace::net {

// How long a client may make the server wait.
struct ConnectionLimits {
  uint64_t idle_us = 75'000'000;   // between requests
  uint64_t head_us = 20'000'000;   // from the first byte of a head to its last
  uint64_t stall_us = 60'000'000;  // without a single byte of body in either direction
};

class Connection {
 public:
  // Owns the socket, which is not blocking.
  // The limits outlive it.
  Connection(Loop& loop, int socket, const ConnectionLimits& limits, std::shared_ptr<const ServerTls> tls);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const RequestHead& request() const { return request_; }
  const std::string& peer() const { return peer_; }  // address without port
  bool is_loopback() const { return loopback_; }
  bool is_encrypted() const { return server_tls_ != nullptr; }
  Loop& loop() { return loop_; }

  // The request's body, transfer coding undone; 0 at its end.
  Task<Result<size_t>> read_body(std::span<std::byte> into);
  // All of it, if it is no longer than `most` (kTooLarge otherwise).
  // Its memory comes from `budget` as bytes arrive, and is `charge`; kUnavailable where there is none.
  Task<Result<std::string>> read_whole_body(size_t most, Budget& budget, Charge& charge);
  // The same in a block, where the request says its length; kInvalid otherwise.
  Task<Result<Bytes>> read_whole_body(Blocks& blocks, size_t most, Budget& budget, Charge& charge);

  // The response. `start` and `head().add` build the head; then one of the senders.
  HeadBuilder& start(int status);
  HeadBuilder& head() { return head_; }
  // Head and body at once; adds Content-Length. For HEAD requests the body is counted but not sent.
  // `more` follows the body, which is short then.
  Task<Status> send(std::string_view body, std::string_view more = {});
  // Head alone, where the body follows in stretches: `length` bytes of them, or chunked where it is not
  // known.
  Task<Status> send_head(std::optional<uint64_t> length);
  Task<Status> send_bytes(std::string_view bytes);
  Task<Status> send_file(int descriptor, uint64_t offset, uint64_t size);
  Task<Status> end_body();

  void close_after_response() { request_.keep_alive = false; }
  bool response_started() const { return response_started_; }
  int response_status() const { return head_.status(); }
  uint64_t bytes_received() const { return stream_.bytes_received() - received_before_; }
  uint64_t bytes_sent() const { return stream_.bytes_sent() - sent_before_; }
  uint64_t began_us() const { return began_us_; }  // when the head was complete

 private:
  friend class Server;

  using More = Stream::More;

  // For the server's loop.
  Task<Status> handshake();
  Task<Result<bool>> read_request();  // false: the client is done
  Task<Status> end_request();

  Task<Status> fill_buffer();
  Task<Status> send_file_chunk(int descriptor, uint64_t offset, uint64_t size);
  Task<Result<size_t>> read_length_body(std::span<std::byte> into);
  Task<Result<size_t>> read_chunked_body(std::span<std::byte> into);
  Task<Status> answer_expectation();
  bool can_go_on() const;

  std::string_view buffered() const { return {buffer_.get() + begin_, end_ - begin_}; }

  Loop& loop_;
  const ConnectionLimits& limits_;
  Stream stream_;  // its deadlines: the client has been idle or too slow. A slow drive is not its fault.
  const std::shared_ptr<const ServerTls> server_tls_;
  std::string peer_;
  bool loopback_ = false;

  std::unique_ptr<char[]> buffer_;  // head and the first bytes behind it
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;

  RequestHead request_;
  std::string kept_head_;  // what `request_` points into where the body is chunked
  uint64_t body_left_ = 0;
  std::optional<ChunkedDecoder> chunks_;
  bool expectation_open_ = false;
  bool body_broken_ = false;  // nobody knows where the next request begins

  HeadBuilder head_;
  bool response_started_ = false;
  bool chunked_response_ = false;
  // The stream's counts when this request began.
  uint64_t received_before_ = 0;
  uint64_t sent_before_ = 0;
  uint64_t began_us_ = 0;
};

}  // namespace millrace::net
