// Connection: one client's socket while the server talks to it: a request in, a response out, again and
// again.
//
// It lives on one io thread and is only touched there. Sending and receiving try the system call first and
// wait only when the socket is not ready. A handler reads the request, takes as much of the body as it wants,
// and sends exactly one response. Errors of the socket end the connection; handlers pass them on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/result.h"
#include "net/http.h"
#include "net/loop.h"
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
  ~Connection();

  const RequestHead& request() const { return request_; }
  const std::string& peer() const { return peer_; }  // address without port
  bool is_loopback() const { return loopback_; }
  bool is_encrypted() const { return tls_ != nullptr; }
  Loop& loop() { return loop_; }

  // The request's body, transfer coding undone; 0 at its end.
  Task<Result<size_t>> read_body(std::span<std::byte> into);
  // All of it, if it is no longer than `most` (kTooLarge otherwise).
  // Its memory comes from `budget` as bytes arrive, and is `charge`; kUnavailable where there is none.
  Task<Result<std::string>> read_whole_body(size_t most, Budget& budget, Charge& charge);

  // The response. `start` and `head().add` build the head; then one of the senders.
  HeadBuilder& start(int status);
  HeadBuilder& head() { return head_; }
  // Head and body at once; adds Content-Length. For HEAD requests the body is counted but not sent.
  Task<Status> send(std::string_view body);
  // Head alone, where the body follows in stretches: `length` bytes of them, or chunked where it is not
  // known.
  Task<Status> send_head(std::optional<uint64_t> length);
  Task<Status> send_bytes(std::string_view bytes);
  Task<Status> send_file(int descriptor, uint64_t offset, uint64_t size);
  Task<Status> end_body();

  void close_after_response() { request_.keep_alive = false; }
  bool response_started() const { return response_started_; }
  int response_status() const { return head_.status(); }
  uint64_t bytes_received() const { return bytes_received_; }
  uint64_t bytes_sent() const { return bytes_sent_; }
  uint64_t began_us() const { return began_us_; }  // when the head was complete

 private:
  friend class Server;

  enum class More { kNo, kYes };  // more follows at once: let the kernel gather

  // For the server's loop.
  Task<Status> handshake();
  Task<Result<bool>> read_request();  // false: the client is done
  Task<Status> end_request();
  void cancel() { loop_.cancel(watch_); }

  Task<Result<size_t>> receive(std::span<std::byte> into);
  Task<Status> fill_buffer();
  Task<Status> transmit(std::string_view bytes, More more);
  size_t transmit_at_once(std::string_view bytes, More more);
  Task<Status> transmit_raw(std::string_view bytes, More more);
  Task<Status> transmit_two(std::string_view first, std::string_view second);
  Task<Status> flush_tls(More more);
  Task<Status> transmit_file_encrypted(int descriptor, uint64_t offset, uint64_t size);
  // Counts what was moved without waiting; then others should have their turn.
  bool is_turn_over(size_t moved);
  Task<Status> wait_readable();
  Task<Status> wait_writable();
  Task<Result<size_t>> read_length_body(std::span<std::byte> into);
  Task<Result<size_t>> read_chunked_body(std::span<std::byte> into);
  Task<Status> answer_expectation();
  bool can_go_on() const;
  void cork(bool on);

  std::string_view buffered() const { return {buffer_.get() + begin_, end_ - begin_}; }

  Loop& loop_;
  const ConnectionLimits& limits_;
  Watch watch_;
  std::unique_ptr<TlsSession> tls_;
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
  bool corked_ = false;
  uint64_t bytes_received_ = 0;
  uint64_t bytes_sent_ = 0;
  uint64_t turn_bytes_ = 0;

  // Judged by the server's sweep: when the deadline passes, the client has been idle or too slow. There is
  // one only while the client is waited for; a slow drive is not the client's fault.
  uint64_t deadline_us_ = UINT64_MAX;
  uint64_t wait_until_us_ = 0;  // becomes the deadline of the next wait
  uint64_t began_us_ = 0;
  std::unique_ptr<char[]> cipher_buffer_;
};

}  // namespace millrace::net
