// One socket, plain or TLS: reads, writes and sendfile that suspend or block.
#include "net/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/clock.h"

namespace millrace::net {

namespace {

constexpr size_t kCipherBuffer = 128 << 10;
// So much for one stream, then the next: a peer that is always ready would keep the thread to itself.
constexpr uint64_t kTurnBytes = 1 << 20;

// sendfile has no MSG_NOSIGNAL. The signal goes to the thread that writes, so that holding it back there and
// taking it out again keeps it from everyone.
class HoldBrokenPipe {
 public:
  HoldBrokenPipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~HoldBrokenPipe() {
    if (broken_) {
      const timespec at_once{};
      ::sigtimedwait(&pipe_, nullptr, &at_once);
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  void note(int error) { broken_ = broken_ || error == EPIPE; }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool broken_ = false;
};

Error socket_error(int error) {
  return make_error(Code::kUnavailable, "{}", std::generic_category().message(error));
}

bool is_not_ready(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

void set_timeout(int socket, int option, uint64_t us) {
  const timeval time{static_cast<time_t>(us / 1'000'000), static_cast<suseconds_t>(us % 1'000'000)};
  ::setsockopt(socket, SOL_SOCKET, option, &time, sizeof time);
}

uint64_t later(uint64_t patience_us) {
  return patience_us == Stream::kForever ? Stream::kForever : coarse_us() + patience_us;
}

}  // namespace

Stream::Stream(Loop& loop, int socket) : Timer(&loop.timers()), loop_(&loop) {
  watch_.descriptor = socket;
}

Stream::Stream(int socket, std::shared_ptr<Lifeline> lifeline)
    : Timer(nullptr), loop_(nullptr), lifeline_(std::move(lifeline)) {
  watch_.descriptor = socket;
}

Stream::~Stream() {
  if (watched_) loop_->unwatch(watch_);
  if (lifeline_) lifeline_->detach(watch_.descriptor);
  ::close(watch_.descriptor);
}

void Stream::tune(const SocketAddress& peer) {
  const int on = 1;
  ::setsockopt(watch_.descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // BBR paces, which on loopback costs up to five sixths of the throughput; Reno is allowed to everyone.
  if (peer.is_loopback()) ::setsockopt(watch_.descriptor, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

Status Stream::start() {
  tune(SocketAddress::of_peer(watch_.descriptor));
  if (loop_ == nullptr) return {};
  MR_TRY(loop_->watch(watch_));
  watched_ = true;
  return {};
}

Task<Status> Stream::connect(const SocketAddress& address) {
  tune(address);
  const int on = 1;
  ::setsockopt(watch_.descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (lifeline_ && !lifeline_->attach(watch_.descriptor)) co_return cut_off();
  int error = ::connect(watch_.descriptor, address.get(), address.size) == 0 ? 0 : errno;
  // Watched only now: a socket that is not even connecting looks like one that was closed.
  if (loop_ != nullptr && (error == 0 || error == EINPROGRESS)) {
    auto watched = loop_->watch(watch_);
    if (!watched) co_return watched.take_error();
    watched_ = true;
    if (error == EINPROGRESS) {
      auto waited = co_await until_writable();
      if (!waited) co_return why_ended();
      socklen_t size = sizeof error;
      ::getsockopt(watch_.descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error == EINPROGRESS || is_not_ready(error)) co_return why_ended();
  if (error == 0) co_return Status();
  Error refused = socket_error(error);
  if (error == ECONNREFUSED)
    co_return std::move(refused).with_hint("is the server running, and is this its port?");
  co_return refused;
}

void Stream::set_read_patience(uint64_t us) {
  if (std::exchange(read_patience_us_, us) != us && loop_ == nullptr)
    set_timeout(watch_.descriptor, SO_RCVTIMEO, us);
}

void Stream::set_write_patience(uint64_t us) {
  if (std::exchange(write_patience_us_, us) != us && loop_ == nullptr)
    set_timeout(watch_.descriptor, SO_SNDTIMEO, us);
}

void Stream::attach(Cancellation* scope) {
  scope_ = scope;
  if (!subscribe(scope)) watch_.cancelled = true;
}

void Stream::due() {
  const uint64_t until = std::min(read_until_us_, write_until_us_);
  if (until == kForever) return;
  if (until > steady_us()) return arm(until);
  timed_out_ = true;
  loop_->cancel(watch_);  // may destroy the stream
}

void Stream::cancelled() {
  loop_->cancel(watch_);  // may destroy the stream
}

Error Stream::why_ended() const {
  if (scope_ != nullptr && scope_->is_cancelled() && !timed_out_) return scope_->error();
  return make_error(kSilent, "no answer in time");
}

bool Stream::Readiness::await_ready() noexcept {
  stream.turn_bytes_ = 0;
  // A blocking socket that says "not ready" has waited for as long as it may.
  if (stream.loop_ == nullptr) return true;
  Watch& watch = stream.watch_;
  (reading ? watch.readable : watch.writable) = false;
  return watch.cancelled || (reading ? watch.read_ended : watch.hung_up);
}

void Stream::Readiness::await_suspend(std::coroutine_handle<> waiting) {
  const uint64_t until = reading ? std::min(stream.deadline_us_, later(stream.read_patience_us_))
                                 : later(stream.write_patience_us_);
  (reading ? stream.read_until_us_ : stream.write_until_us_) = until;
  if (until < stream.armed_us()) stream.arm(until);
  (reading ? stream.watch_.reader : stream.watch_.writer) = waiting;
}

Status Stream::Readiness::await_resume() {
  (reading ? stream.read_until_us_ : stream.write_until_us_) = kForever;
  if (stream.loop_ == nullptr || stream.watch_.cancelled)
    return stream.why_ended().within(reading ? "reading" : "sending");
  return {};
}

bool Stream::is_turn_over(size_t moved) {
  turn_bytes_ += moved;
  if (turn_bytes_ < kTurnBytes || loop_ == nullptr) return false;
  turn_bytes_ = 0;
  return true;
}

void Stream::make_cipher_buffer() {
  if (!cipher_buffer_) cipher_buffer_.reset(new char[kCipherBuffer]);
}

Task<Result<size_t>> Stream::read_some(std::span<std::byte> into) {
  while (true) {
    if (watch_.cancelled) co_return why_ended().within("reading");
    if (tls_) {
      auto got = tls_->read(into);
      if (!got && got.error().code() == Code::kTruncated) co_return size_t{0};
      if (!got) co_return got.take_error();
      if (*got > 0) {
        received_ += *got;
        co_return *got;
      }
      // Reading may have produced something to say (a key update, a late handshake message).
      if (!tls_->pending().empty()) {
        auto flushed = co_await flush();
        if (!flushed) co_return flushed.take_error();
      }
    }
    if (loop_ != nullptr && !watch_.readable && !watch_.read_ended) {
      auto waited = co_await until_readable();
      if (!waited) co_return waited.take_error();
    }
    void* const place = tls_ ? static_cast<void*>(cipher_buffer_.get()) : into.data();
    const size_t room = tls_ ? kCipherBuffer : into.size();
    const ssize_t got = ::recv(watch_.descriptor, place, room, 0);
    // Less than there is room for: the socket is empty, and what comes next will be an event.
    if (got > 0 && static_cast<size_t>(got) < room) watch_.readable = false;
    if (got > 0) {
      if (is_turn_over(static_cast<size_t>(got))) co_await loop_->next_turn();
      if (tls_) {
        tls_->take({cipher_buffer_.get(), static_cast<size_t>(got)});
        continue;
      }
      received_ += static_cast<size_t>(got);
      co_return static_cast<size_t>(got);
    }
    if (got == 0) {
      if (!tls_) co_return size_t{0};
      auto judged = tls_->judge_cut();
      if (!judged) co_return judged.take_error();
      co_return size_t{0};
    }
    if (errno == EINTR) continue;
    if (!is_not_ready(errno)) co_return socket_error(errno).within("reading");
    auto waited = co_await until_readable();
    if (!waited) co_return waited.take_error();
  }
}

Task<Status> Stream::handshake(std::unique_ptr<TlsSession> session) {
  tls_ = std::move(session);
  make_cipher_buffer();
  while (true) {
    auto step = tls_->handshake();
    if (!step && step.error().code() == Code::kUnsupported) co_return step.take_error();
    auto flushed = co_await flush();
    if (!step) co_return step.take_error();
    if (!flushed) co_return flushed.take_error();
    if (tls_->is_established()) co_return Status();
    const ssize_t got = ::recv(watch_.descriptor, cipher_buffer_.get(), kCipherBuffer, 0);
    if (got > 0) {
      tls_->take({cipher_buffer_.get(), static_cast<size_t>(got)});
      continue;
    }
    if (got == 0) co_return tls_->judge_cut();
    if (errno == EINTR) continue;
    if (!is_not_ready(errno)) co_return socket_error(errno).within("reading");
    auto waited = co_await until_readable();
    if (!waited) co_return waited.take_error();
  }
}

Task<Status> Stream::write_all(std::string_view bytes, More more) {
  if (!tls_) return write_in_clear(bytes, more);
  return write_encrypted(bytes, more);
}

Task<Status> Stream::write_encrypted(std::string_view bytes, More more) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kCipherBuffer);
    bytes.remove_prefix(piece.size());
    auto written = tls_->write(piece);
    if (!written) co_return written.take_error();
    if (bytes.empty() && more == More::kYes) break;  // the records leave with what follows
    auto flushed = co_await flush();
    if (!flushed) co_return flushed.take_error();
  }
  co_return Status();
}

size_t Stream::write_at_once(std::string_view bytes, More more) {
  const ssize_t done = ::send(watch_.descriptor, bytes.data(), bytes.size(),
                              MSG_NOSIGNAL | (more == More::kYes ? MSG_MORE : 0));
  if (done < 0) return 0;
  sent_ += static_cast<size_t>(done);
  return static_cast<size_t>(done);
}

Task<Status> Stream::write_in_clear(std::string_view bytes, More more) {
  while (!bytes.empty()) {
    if (watch_.cancelled) co_return why_ended().within("sending");
    const size_t done = write_at_once(bytes, more);
    bytes.remove_prefix(done);
    if (is_turn_over(done)) co_await loop_->next_turn();
    if (done > 0) continue;
    if (errno == EINTR) continue;
    if (!is_not_ready(errno)) co_return socket_error(errno).within("sending");
    auto waited = co_await until_writable();
    if (!waited) co_return waited.take_error();
  }
  co_return Status();
}

Task<Status> Stream::write_both(std::string_view first, std::string_view second) {
  if (tls_) {
    auto head = co_await write_encrypted(first, More::kYes);
    if (!head) co_return head.take_error();
    auto body = co_await write_encrypted(second, More::kNo);
    if (!body) co_return body.take_error();
    // An empty second part leaves the records of the first where they are.
    co_return co_await flush();
  }
  while (!first.empty() || !second.empty()) {
    if (watch_.cancelled) co_return why_ended().within("sending");
    iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                      {const_cast<char*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = second.empty() ? 1 : 2;
    const ssize_t done = ::sendmsg(watch_.descriptor, &message, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && !is_not_ready(errno)) co_return socket_error(errno).within("sending");
    if (done < 0) {
      auto waited = co_await until_writable();
      if (!waited) co_return waited.take_error();
      continue;
    }
    const size_t sent = static_cast<size_t>(done);
    sent_ += sent;
    const size_t of_first = std::min(sent, first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(sent - of_first);
    if (is_turn_over(sent) && !second.empty()) co_await loop_->next_turn();
  }
  co_return Status();
}

Task<Status> Stream::flush() {
  if (!tls_) co_return Status();
  const std::string_view pending = tls_->pending();
  if (pending.empty()) co_return Status();
  auto sent = co_await write_in_clear(pending);
  if (sent) tls_->sent();
  co_return sent;
}

ssize_t Stream::send_file_part(int file, off_t* at, uint64_t size) {
  const size_t most = static_cast<size_t>(std::min(size, kTurnBytes));
  if (loop_ != nullptr) return ::sendfile(watch_.descriptor, file, at, most);
  HoldBrokenPipe hold;
  const ssize_t done = ::sendfile(watch_.descriptor, file, at, most);
  const int error = errno;
  if (done < 0) hold.note(error);
  errno = error;
  return done;
}

Task<Status> Stream::send_file(int file, uint64_t offset, uint64_t size) {
  if (tls_) return send_file_encrypted(file, offset, size);
  return send_file_in_clear(file, offset, size);
}

Task<Status> Stream::send_file_in_clear(int file, uint64_t offset, uint64_t size) {
  off_t at = static_cast<off_t>(offset);
  while (size > 0) {
    if (watch_.cancelled) co_return why_ended().within("sending");
    const ssize_t done = send_file_part(file, &at, size);
    if (done > 0) {
      size -= static_cast<uint64_t>(done);
      sent_ += static_cast<uint64_t>(done);
      if (is_turn_over(static_cast<size_t>(done)) && size > 0) co_await loop_->next_turn();
      continue;
    }
    if (done == 0) co_return make_error(Code::kTruncated, "the file became shorter while it was sent");
    if (errno == EINTR) continue;
    if (!is_not_ready(errno)) co_return socket_error(errno).within("sending");
    auto waited = co_await until_writable();
    if (!waited) co_return waited.take_error();
  }
  co_return Status();
}

Task<Status> Stream::send_file_encrypted(int file, uint64_t offset, uint64_t size) {
  while (size > 0) {
    const size_t want = static_cast<size_t>(std::min<uint64_t>(size, kCipherBuffer));
    const ssize_t got = ::pread(file, cipher_buffer_.get(), want, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) co_return make_system_error(errno, "reading a file to send");
    if (got == 0) co_return make_error(Code::kTruncated, "the file became shorter while it was sent");
    auto written = tls_->write({cipher_buffer_.get(), static_cast<size_t>(got)});
    if (!written) co_return written.take_error();
    auto flushed = co_await flush();
    if (!flushed) co_return flushed.take_error();
    offset += static_cast<uint64_t>(got);
    size -= static_cast<uint64_t>(got);
  }
  co_return Status();
}

Task<void> Stream::end_writing() {
  if (tls_) {
    tls_->close();
    const auto flushed = co_await flush();
    static_cast<void>(flushed);  // the peer sees an end either way
  }
  ::shutdown(watch_.descriptor, SHUT_WR);
}

void Stream::cork(bool on) {
  if (on == corked_) return;
  const int value = on ? 1 : 0;
  ::setsockopt(watch_.descriptor, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
  corked_ = on;
}

bool Stream::is_stale() const {
  if (watch_.cancelled) return true;
  char byte = 0;
  const ssize_t got = ::recv(watch_.descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  // TLS 1.3 servers send session tickets after the handshake: those are not a reason to drop the stream.
  if (got > 0) return tls_ == nullptr;
  return got == 0 || !is_not_ready(errno);
}

}  // namespace millrace::net
