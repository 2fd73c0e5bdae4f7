// Stream: a connected socket, plain or TLS, on a loop or blocking. Servers and clients speak over the same
// one.
//
// On a loop every call tries the system call first and waits only when the socket is not ready; others of the
// thread have their turn after each megabyte. Without a loop the socket itself blocks, so that no call ever
// suspends and run_now() (net/task.h) drives it: the same code serves the threads of a loader.
//
// A wait ends in vain at the stream's deadline, after its patience, or with the scope it is attached to.
// That, like any error, is for good: the two sides may be out of step, and only closing is left. A Stream
// stays where it is and belongs to its loop's thread, or to one thread at a time. Writing raises no SIGPIPE,
// but for send_file on a loop: a program with loops ignores that signal.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "net/address.h"
#include "net/cancellation.h"
#include "net/lifeline.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/timer.h"
#include "net/tls_session.h"

namespace millrace::net {

// The other side sent or took nothing for as long as the stream is patient.
inline constexpr Reason kSilent{Code::kUnavailable, "silent"};

class Stream final : private Timer, private CancellationSubscriber {
 public:
  enum class More { kNo, kYes };  // more follows at once: let the kernel gather
  static constexpr uint64_t kForever = UINT64_MAX;

  // Owns the socket, which does not block. start() comes first.
  Stream(Loop& loop, int socket);
  // Owns the socket, which blocks. The lifeline may be null.
  Stream(int socket, std::shared_ptr<Lifeline> lifeline);
  ~Stream();

  // One of the two begins: with a socket that is connected, or by connecting it.
  Status start();
  Task<Status> connect(const SocketAddress& address);
  // All that follows is encrypted. kUnsupported: a client that speaks plain HTTP.
  Task<Status> handshake(std::unique_ptr<TlsSession> session);

  // How long each single wait may last, from now on.
  void set_read_patience(uint64_t us);
  void set_write_patience(uint64_t us);
  // On a loop: when waits for bytes end in vain, whatever the patience. Past its use it is set anew.
  void set_deadline(uint64_t at_us) { deadline_us_ = at_us; }
  // On a loop: ends with this scope from now on. Null: with none.
  void attach(Cancellation* scope);

  Task<Result<size_t>> read_some(std::span<std::byte> into);  // 0: the peer has closed
  Task<Status> write_all(std::string_view bytes, More more = More::kNo);
  Task<Status> write_both(std::string_view first, std::string_view second);  // in one send where possible
  // What a plain socket takes without waiting; errors are left to the next call.
  size_t write_at_once(std::string_view bytes, More more);
  // From the file to the socket without a copy where the stream is plain. kTruncated: the file is shorter.
  Task<Status> send_file(int file, uint64_t offset, uint64_t size);
  Task<Status> flush();  // records that were held back by More::kYes
  // Past the encryption: for a peer that does not speak it.
  Task<Status> write_in_clear(std::string_view bytes, More more = More::kNo);
  // Nothing more will be sent; reading goes on.
  Task<void> end_writing();
  // Packets leave only when they are full, until it is off again.
  void cork(bool on);
  bool is_corked() const { return corked_; }
  // Waits that follow are for more of a long body: looking for it longer would not pay (net/loop.h).
  void expect_long_body(bool expected) { watch_.in_body = expected; }

  // An idle stream with something to read was closed by its peer, or is out of step.
  bool is_stale() const;
  bool is_encrypted() const { return tls_ != nullptr; }
  uint64_t bytes_received() const { return received_; }  // plain
  uint64_t bytes_sent() const { return sent_; }          // as they went out

 private:
  // Waits for the socket; how it ended is the result.
  struct Readiness {
    Stream& stream;
    bool reading;
    bool await_ready() noexcept;
    void await_suspend(std::coroutine_handle<> waiting);
    Status await_resume();
  };
  Readiness until_readable() { return {*this, true}; }
  Readiness until_writable() { return {*this, false}; }

  void due() override;
  void cancelled() override;
  Error why_ended() const;
  // Counts what was moved without waiting; then others should have their turn.
  bool is_turn_over(size_t moved);
  Task<Status> write_encrypted(std::string_view bytes, More more);
  Task<Status> send_file_in_clear(int file, uint64_t offset, uint64_t size);
  Task<Status> send_file_encrypted(int file, uint64_t offset, uint64_t size);
  ssize_t send_file_part(int file, off_t* at, uint64_t size);
  void tune(const SocketAddress& peer);
  void make_cipher_buffer();

  Loop* const loop_;  // null: blocking
  const std::shared_ptr<Lifeline> lifeline_;
  Watch watch_;
  std::unique_ptr<TlsSession> tls_;
  std::unique_ptr<char[]> cipher_buffer_;
  bool corked_ = false;
  bool watched_ = false;
  bool timed_out_ = false;
  uint64_t turn_bytes_ = 0;
  uint64_t received_ = 0;
  uint64_t sent_ = 0;

  uint64_t deadline_us_ = kForever;
  uint64_t read_patience_us_ = kForever;
  uint64_t write_patience_us_ = kForever;
  // Of the waits under way. The timer may be armed for an earlier time, that of a wait long over: it then
  // looks here. So a wait that ends in time costs nothing but this word.
  uint64_t read_until_us_ = kForever;
  uint64_t write_until_us_ = kForever;
  Cancellation* scope_ = nullptr;
};

}  // namespace millrace::net
