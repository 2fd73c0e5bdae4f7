// Bytes in and out of one socket.
#include "net/connection.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"

namespace millrace::net {

namespace {

constexpr size_t kStartBuffer = 8 << 10;
constexpr size_t kCipherBuffer = 128 << 10;
// In plain text, as the one who asks speaks it.
constexpr std::string_view kNeedsTls =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: "
    "173\r\n\r\n"
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InvalidRequest</Code><Message>this port speaks "
    "TLS: "
    "begin the address with https:// instead of http://</Message></Error>\n";
// A body may come slowly, but not by the drop: below this rate, after a minute, it only holds the place.
constexpr uint64_t kLeastBytesPerSecond = 512;
// Unread body worth reading to keep the connection; more is cheaper to cut off.
constexpr uint64_t kDrainBytes = 256 << 10;
// Up to here head and body leave best as one send marked with MSG_MORE, above it under TCP_CORK: measured.
constexpr uint64_t kCorkAbove = 64 << 10;
constexpr uint64_t kLongBody = 64 << 10;  // does not come at once
// So much for one connection, then the next: a client that is always ready would keep the thread to itself.
constexpr uint64_t kTurnBytes = 1 << 20;

Error gone(int error, std::string_view what) {
  return make_error(Code::kUnavailable, "{}: {}", what, std::strerror(error));
}

Error peer_closed() {
  return make_error(Code::kUnavailable, "the client closed the connection");
}

}  // namespace

Connection::Connection(Loop& loop, int socket, const ConnectionLimits& limits,
                       std::shared_ptr<const ServerTls> tls)
    : loop_(loop), limits_(limits) {
  watch_.descriptor = socket;
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char text[INET6_ADDRSTRLEN] = "";
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length);
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  } else if (address.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  }
  peer_ = text;
  loopback_ = peer_.starts_with("127.") || peer_ == "::1" || peer_.starts_with("::ffff:127.");
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // BBR paces, which on loopback costs up to five sixths of the throughput; Reno is allowed to everyone.
  if (loopback_) ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  if (tls) tls_ = std::make_unique<TlsSession>(std::move(tls));
  buffer_.reset(new char[kStartBuffer]);
  capacity_ = kStartBuffer;
  wait_until_us_ = coarse_us() + limits_.head_us;
}

Connection::~Connection() {
  loop_.unwatch(watch_);
  ::close(watch_.descriptor);
}

bool Connection::is_turn_over(size_t moved) {
  turn_bytes_ += moved;
  if (turn_bytes_ < kTurnBytes) return false;
  turn_bytes_ = 0;
  return true;
}

Task<Status> Connection::wait_readable() {
  turn_bytes_ = 0;
  watch_.readable = false;
  deadline_us_ = wait_until_us_;
  co_await Loop::until_readable(watch_);
  deadline_us_ = UINT64_MAX;
  if (watch_.cancelled) co_return make_error(Code::kUnavailable, "the client is idle or too slow");
  co_return Status();
}

Task<Status> Connection::wait_writable() {
  turn_bytes_ = 0;
  watch_.writable = false;
  deadline_us_ = wait_until_us_;
  co_await Loop::until_writable(watch_);
  deadline_us_ = UINT64_MAX;
  if (watch_.cancelled) co_return make_error(Code::kUnavailable, "the client is idle or too slow");
  co_return Status();
}

// Plain bytes from the client; 0 when it has closed its side.
Task<Result<size_t>> Connection::receive(std::span<std::byte> into) {
  if (tls_ && !cipher_buffer_) cipher_buffer_.reset(new char[kCipherBuffer]);
  while (true) {
    if (tls_) {
      auto got = tls_->read(into);
      if (!got && got.error().code() == Code::kTruncated) co_return size_t{0};
      if (!got) co_return got.take_error();
      if (*got > 0) {
        bytes_received_ += *got;
        co_return *got;
      }
      // Reading may have produced something to say (a key update, a late handshake message).
      if (!tls_->pending().empty()) {
        auto flushed = co_await flush_tls(More::kNo);
        if (!flushed) co_return flushed.take_error();
      }
    }
    if (!watch_.readable && !watch_.read_ended) {
      auto waited = co_await wait_readable();
      if (!waited) co_return waited.take_error();
    }
    void* const place = tls_ ? static_cast<void*>(cipher_buffer_.get()) : into.data();
    const size_t room = tls_ ? kCipherBuffer : into.size();
    const ssize_t got = ::recv(watch_.descriptor, place, room, 0);
    // Less than there is room for: the socket is empty, and what comes next will be an event.
    if (got > 0 && static_cast<size_t>(got) < room) watch_.readable = false;
    if (got > 0) {
      if (is_turn_over(static_cast<size_t>(got))) co_await loop_.next_turn();
      if (tls_) {
        tls_->take({cipher_buffer_.get(), static_cast<size_t>(got)});
        continue;
      }
      bytes_received_ += static_cast<size_t>(got);
      co_return static_cast<size_t>(got);
    }
    if (got == 0) co_return size_t{0};
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) co_return gone(errno, "receiving");
    auto waited = co_await wait_readable();
    if (!waited) co_return waited.take_error();
  }
}

Task<Status> Connection::transmit(std::string_view bytes, More more) {
  if (tls_) {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kCipherBuffer);
      bytes.remove_prefix(piece.size());
      auto written = tls_->write(piece);
      if (!written) co_return written.take_error();
      if (bytes.empty() && more == More::kYes) break;  // the records leave with what follows
      auto flushed = co_await flush_tls(more);
      if (!flushed) co_return flushed.take_error();
    }
    co_return Status();
  }
  co_return co_await transmit_raw(bytes, more);
}

// What the socket takes at once; errors are left to the next attempt.
size_t Connection::transmit_at_once(std::string_view bytes, More more) {
  const ssize_t done = ::send(watch_.descriptor, bytes.data(), bytes.size(),
                              MSG_NOSIGNAL | (more == More::kYes ? MSG_MORE : 0));
  if (done < 0) return 0;
  bytes_sent_ += static_cast<size_t>(done);
  return static_cast<size_t>(done);
}

// Bytes as the peer will see them.
Task<Status> Connection::transmit_raw(std::string_view bytes, More more) {
  while (!bytes.empty()) {
    const size_t done = transmit_at_once(bytes, more);
    bytes.remove_prefix(done);
    if (is_turn_over(done)) co_await loop_.next_turn();
    if (done > 0) continue;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) co_return gone(errno, "sending");
    wait_until_us_ = coarse_us() + limits_.stall_us;
    auto waited = co_await wait_writable();
    if (!waited) co_return waited.take_error();
  }
  co_return Status();
}

Task<Status> Connection::transmit_two(std::string_view first, std::string_view second) {
  if (tls_) {
    auto head = co_await transmit(first, More::kYes);
    if (!head) co_return head.take_error();
    auto body = co_await transmit(second, More::kNo);
    if (!body) co_return body.take_error();
    // An empty body leaves the head's records where transmit put them.
    co_return co_await flush_tls(More::kNo);
  }
  iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                    {const_cast<char*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = second.empty() ? 1 : 2;
  size_t sent = 0;
  const ssize_t done = ::sendmsg(watch_.descriptor, &message, MSG_NOSIGNAL);
  if (done < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) co_return gone(errno, "sending");
  if (done > 0) sent = static_cast<size_t>(done);
  bytes_sent_ += sent;
  if (sent == first.size() + second.size()) co_return Status();
  if (sent < first.size()) {
    auto rest = co_await transmit(first.substr(sent), second.empty() ? More::kNo : More::kYes);
    if (!rest) co_return rest.take_error();
    sent = first.size();
  }
  co_return co_await transmit(second.substr(sent - first.size()), More::kNo);
}

Task<Status> Connection::flush_tls(More more) {
  const std::string_view pending = tls_->pending();
  if (pending.empty()) co_return Status();
  auto sent = co_await transmit_raw(pending, more);
  if (sent) tls_->sent();
  co_return sent;
}

Task<Status> Connection::handshake() {
  if (!tls_) co_return Status();
  cipher_buffer_.reset(new char[kCipherBuffer]);
  while (true) {
    auto step = tls_->handshake();
    if (!step && step.error().code() == Code::kUnsupported) {
      const auto told = co_await transmit_raw(kNeedsTls, More::kNo);
      static_cast<void>(told);
      co_return step.take_error();
    }
    auto flushed = co_await flush_tls(More::kNo);
    if (!step) co_return step.take_error();
    if (!flushed) co_return flushed.take_error();
    if (tls_->is_established()) co_return Status();
    const ssize_t got = ::recv(watch_.descriptor, cipher_buffer_.get(), kCipherBuffer, 0);
    if (got > 0) {
      tls_->take({cipher_buffer_.get(), static_cast<size_t>(got)});
      continue;
    }
    if (got == 0) co_return peer_closed();
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) co_return gone(errno, "receiving");
    auto waited = co_await wait_readable();
    if (!waited) co_return waited.take_error();
  }
}

Task<Status> Connection::fill_buffer() {
  if (end_ == capacity_) {
    if (begin_ > 0) {
      std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    } else {
      if (capacity_ >= kMaxRequestHead)
        co_return make_error(Code::kTooLarge, "the head is over {} bytes", kMaxRequestHead);
      std::unique_ptr<char[]> larger(new char[2 * capacity_]);
      std::memcpy(larger.get(), buffer_.get(), end_);
      buffer_ = std::move(larger);
      capacity_ *= 2;
    }
  }
  const std::span<char> room(buffer_.get() + end_, capacity_ - end_);
  auto got = co_await receive(std::as_writable_bytes(room));
  if (!got) co_return got.take_error();
  if (*got == 0) co_return peer_closed();
  end_ += *got;
  co_return Status();
}

Task<Result<bool>> Connection::read_request() {
  response_started_ = false;
  chunked_response_ = false;
  bytes_received_ = end_ - begin_;
  bytes_sent_ = 0;
  watch_.in_body = false;
  if (begin_ == end_) begin_ = end_ = 0;
  const uint64_t now = coarse_us();
  bool begun = begin_ < end_;
  wait_until_us_ = now + (begun ? limits_.head_us : limits_.idle_us);
  while (true) {
    // Empty lines before a request are left over from clients that end their bodies with one.
    while (begin_ < end_ && (buffer_[begin_] == '\r' || buffer_[begin_] == '\n')) ++begin_;
    if (begin_ == end_) begin_ = end_ = 0;
    const auto head_bytes = find_head_end(buffered());
    if (head_bytes) {
      auto parsed = parse_request(buffered().substr(0, *head_bytes), request_);
      if (!parsed) co_return parsed.take_error();
      if (request_.chunked) {
        // Chunks are received into the buffer that holds the head; whoever reads them looks at the head
        // afterwards too.
        kept_head_.assign(buffered().substr(0, *head_bytes));
        auto again = parse_request(kept_head_, request_);
        if (!again) co_return again.take_error();
      }
      begin_ += *head_bytes;
      break;
    }
    auto filled = co_await fill_buffer();
    if (!filled) {
      if (begin_ == end_ && filled.error().code() == Code::kUnavailable) co_return false;
      co_return filled.take_error();
    }
    // Once: whoever drips empty lines is not given more time for each.
    if (!begun) wait_until_us_ = coarse_us() + limits_.head_us;
    begun = true;
  }
  began_us_ = steady_us();
  wait_until_us_ = coarse_us() + limits_.stall_us;
  body_left_ = request_.content_length.value_or(0);
  chunks_.reset();
  if (request_.chunked) chunks_.emplace();
  expectation_open_ = request_.expects_continue;
  body_broken_ = false;
  co_return true;
}

Task<Status> Connection::answer_expectation() {
  if (!expectation_open_) co_return Status();
  expectation_open_ = false;
  co_return co_await transmit("HTTP/1.1 100 Continue\r\n\r\n", More::kNo);
}

Task<Result<size_t>> Connection::read_body(std::span<std::byte> into) {
  if (into.empty()) co_return size_t{0};
  if (expectation_open_) {
    auto answered = co_await answer_expectation();
    if (!answered) co_return answered.take_error();
  }
  const uint64_t now = coarse_us();
  wait_until_us_ = now + limits_.stall_us;
  const uint64_t seconds = now > began_us_ ? (now - began_us_) / 1'000'000 : 0;
  if (seconds > 60 && bytes_received_ / seconds < kLeastBytesPerSecond) {
    body_broken_ = true;
    co_return make_error(Code::kUnavailable, "the client sends less than {} bytes a second",
                         kLeastBytesPerSecond);
  }
  Result<size_t> got;
  if (chunks_) {
    got = co_await read_chunked_body(into);
  } else {
    got = co_await read_length_body(into);
  }
  if (!got) body_broken_ = true;
  co_return got;
}

// Whether a further request can follow on this connection: only where the rest of this one's body will be
// read. The client must be told with the response, or its next request fails.
bool Connection::can_go_on() const {
  if (!request_.keep_alive || body_broken_) return false;
  // A client that waits for "100 Continue" and gets a final answer may or may not send its body after all.
  if (expectation_open_) return false;
  return body_left_ <= kDrainBytes && (!chunks_ || chunks_->finished());
}

Task<Result<size_t>> Connection::read_length_body(std::span<std::byte> into) {
  if (body_left_ == 0) co_return size_t{0};
  const size_t want = static_cast<size_t>(std::min<uint64_t>(into.size(), body_left_));
  watch_.in_body = body_left_ > kLongBody;
  if (begin_ < end_) {
    const size_t take = std::min(want, end_ - begin_);
    std::memcpy(into.data(), buffer_.get() + begin_, take);
    begin_ += take;
    body_left_ -= take;
    co_return take;
  }
  auto got = co_await receive(into.first(want));
  if (!got) co_return got.take_error();
  if (*got == 0) {
    co_return make_error(Code::kTruncated,
                         "the client closed the connection with {} bytes of the body to come", body_left_);
  }
  body_left_ -= *got;
  co_return *got;
}

Task<Result<size_t>> Connection::read_chunked_body(std::span<std::byte> into) {
  while (!chunks_->finished()) {
    if (begin_ == end_) {
      begin_ = end_ = 0;
      auto filled = co_await fill_buffer();
      if (!filled && filled.error().code() == Code::kUnavailable) {
        co_return make_error(Code::kTruncated, "the client closed the connection inside a chunked body");
      }
      if (!filled) co_return filled.take_error();
    }
    auto step = chunks_->decode(buffered().substr(0, into.size()));
    if (!step) co_return step.take_error();
    if (!step->plain.empty()) std::memcpy(into.data(), step->plain.data(), step->plain.size());
    begin_ += step->used;
    if (!step->plain.empty()) co_return step->plain.size();
  }
  co_return size_t{0};
}

Task<Result<std::string>> Connection::read_whole_body(size_t most, Budget& budget, Charge& charge) {
  std::string body;
  if (request_.content_length && *request_.content_length > most) {
    co_return make_error(Code::kTooLarge, "the body has {} bytes, more than {}", *request_.content_length,
                         most);
  }
  while (true) {
    const size_t have = body.size();
    // Grows as bytes arrive: a claimed length reserves nothing.
    const size_t wanted = std::min(most + 1, have + std::max<size_t>(have, 16 << 10));
    if (!charge.try_grow(budget, wanted))
      co_return make_error(Code::kUnavailable, "too many requests with large bodies are under way");
    body.resize(wanted);
    const auto room = std::as_writable_bytes(std::span(body)).subspan(have);
    auto got = co_await read_body(room);
    if (!got) co_return got.take_error();
    body.resize(have + *got);
    if (*got == 0) co_return body;
    if (body.size() > most) co_return make_error(Code::kTooLarge, "the body has more than {} bytes", most);
  }
}

HeadBuilder& Connection::start(int status) {
  head_.start(status);
  return head_;
}

Task<Status> Connection::send(std::string_view body) {
  response_started_ = true;
  if (head_.status() != 204 && head_.status() != 304) head_.add("Content-Length", body.size());
  request_.keep_alive = can_go_on();
  const std::string& head = head_.finish(request_.keep_alive);
  co_return co_await transmit_two(head, request_.method == "HEAD" ? std::string_view() : body);
}

void Connection::cork(bool on) {
  if (on == corked_) return;
  const int value = on ? 1 : 0;
  ::setsockopt(watch_.descriptor, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
  corked_ = on;
}

Task<Status> Connection::send_head(std::optional<uint64_t> length) {
  response_started_ = true;
  if (length) {
    head_.add("Content-Length", *length);
  } else {
    head_.add("Transfer-Encoding", "chunked");
    chunked_response_ = true;
  }
  request_.keep_alive = can_go_on();
  const std::string& head = head_.finish(request_.keep_alive);
  const bool body_follows = request_.method != "HEAD" && length != uint64_t{0};
  if (body_follows && !tls_ && length.value_or(kCorkAbove + 1) > kCorkAbove) cork(true);
  const More more = body_follows && !corked_ ? More::kYes : More::kNo;
  const size_t sent = tls_ ? 0 : transmit_at_once(head, more);
  if (sent == head.size()) co_return Status();
  co_return co_await transmit(std::string_view(head).substr(sent), more);
}

Task<Status> Connection::send_bytes(std::string_view bytes) {
  if (bytes.empty()) co_return Status();
  if (!chunked_response_) co_return co_await transmit(bytes, More::kNo);
  const std::string size = fmt::format("{:x}\r\n", bytes.size());
  auto begun = co_await transmit(size, More::kYes);
  if (!begun) co_return begun.take_error();
  auto sent = co_await transmit(bytes, More::kYes);
  if (!sent) co_return sent.take_error();
  co_return co_await transmit("\r\n", More::kNo);
}

Task<Status> Connection::send_file(int descriptor, uint64_t offset, uint64_t size) {
  if (chunked_response_) {
    const std::string line = fmt::format("{:x}\r\n", size);
    auto begun = co_await transmit(line, More::kYes);
    if (!begun) co_return begun.take_error();
  }
  if (tls_) {
    auto sent = co_await transmit_file_encrypted(descriptor, offset, size);
    if (!sent) co_return sent.take_error();
    size = 0;
  }
  off_t at = static_cast<off_t>(offset);
  while (size > 0) {
    const ssize_t done =
        ::sendfile(watch_.descriptor, descriptor, &at, static_cast<size_t>(std::min(size, kTurnBytes)));
    if (done > 0) {
      size -= static_cast<uint64_t>(done);
      bytes_sent_ += static_cast<uint64_t>(done);
      if (is_turn_over(static_cast<size_t>(done)) && size > 0) co_await loop_.next_turn();
      continue;
    }
    if (done == 0) co_return make_error(Code::kCorrupt, "a stored file is shorter than its record says");
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) co_return gone(errno, "sending a file");
    wait_until_us_ = coarse_us() + limits_.stall_us;
    auto waited = co_await wait_writable();
    if (!waited) co_return waited.take_error();
  }
  if (chunked_response_) co_return co_await transmit("\r\n", More::kNo);
  co_return Status();
}

Task<Status> Connection::transmit_file_encrypted(int descriptor, uint64_t offset, uint64_t size) {
  if (!cipher_buffer_) cipher_buffer_.reset(new char[kCipherBuffer]);
  while (size > 0) {
    const size_t want = static_cast<size_t>(std::min<uint64_t>(size, kCipherBuffer));
    const ssize_t got = ::pread(descriptor, cipher_buffer_.get(), want, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) co_return make_system_error(errno, "reading a stored file");
    if (got == 0) co_return make_error(Code::kCorrupt, "a stored file is shorter than its record says");
    auto written = tls_->write({cipher_buffer_.get(), static_cast<size_t>(got)});
    if (!written) co_return written.take_error();
    auto flushed = co_await flush_tls(More::kNo);
    if (!flushed) co_return flushed.take_error();
    offset += static_cast<uint64_t>(got);
    size -= static_cast<uint64_t>(got);
  }
  co_return Status();
}

Task<Status> Connection::end_body() {
  if (chunked_response_ && request_.method != "HEAD") {
    auto ended = co_await transmit("0\r\n\r\n", More::kNo);
    if (!ended) co_return ended.take_error();
  }
  cork(false);
  if (tls_) co_return co_await flush_tls(More::kNo);
  co_return Status();
}

Task<Status> Connection::end_request() {
  cork(false);
  if (!request_.keep_alive) co_return Status();
  std::byte scratch[4096];
  while (body_left_ > 0) {
    auto got = co_await read_body(scratch);
    if (!got) co_return got.take_error();
  }
  co_return Status();
}

}  // namespace millrace::net
