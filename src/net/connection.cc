// Reads requests from a stream and writes responses to it.
#include "net/connection.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"

namespace millrace::net {

namespace {

constexpr size_t kStartBuffer = 8 << 10;
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

Error peer_closed() {
  return make_error(Code::kUnavailable, "the client closed the connection");
}

}  // namespace

Connection::Connection(Loop& loop, int socket, const ConnectionLimits& limits,
                       std::shared_ptr<const ServerTls> tls)
    : loop_(loop), limits_(limits), stream_(loop, socket), server_tls_(std::move(tls)) {
  const SocketAddress peer = SocketAddress::of_peer(socket);
  peer_ = peer.text();
  loopback_ = peer.is_loopback();
  buffer_.reset(new char[kStartBuffer]);
  capacity_ = kStartBuffer;
  stream_.set_write_patience(limits_.stall_us);
  stream_.set_deadline(coarse_us() + limits_.head_us);
}

Task<Status> Connection::handshake() {
  if (!server_tls_) co_return Status();
  auto session = std::make_unique<TlsSession>(server_tls_);
  auto secured = co_await stream_.handshake(std::move(session));
  if (!secured && secured.error().code() == Code::kUnsupported) {
    const auto told = co_await stream_.write_in_clear(kNeedsTls);
    static_cast<void>(told);
  }
  co_return secured;
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
  auto got = co_await stream_.read_some(std::as_writable_bytes(room));
  if (!got) co_return got.take_error();
  if (*got == 0) co_return peer_closed();
  end_ += *got;
  co_return Status();
}

Task<Result<bool>> Connection::read_request() {
  response_started_ = false;
  chunked_response_ = false;
  received_before_ = stream_.bytes_received() - (end_ - begin_);
  sent_before_ = stream_.bytes_sent();
  stream_.expect_long_body(false);
  if (begin_ == end_) begin_ = end_ = 0;
  const uint64_t now = coarse_us();
  bool begun = begin_ < end_;
  stream_.set_deadline(now + (begun ? limits_.head_us : limits_.idle_us));
  while (true) {
    // Empty lines before a request are left over from clients that end their bodies with one.
    while (begin_ < end_ && (buffer_[begin_] == '\r' || buffer_[begin_] == '\n')) ++begin_;
    if (begin_ == end_) begin_ = end_ = 0;
    if (begin_ < end_) {
      auto judged = judge_first_byte(buffer_[begin_]);
      if (!judged) co_return judged.take_error();
    }
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
    if (!begun) stream_.set_deadline(coarse_us() + limits_.head_us);
    begun = true;
  }
  began_us_ = steady_us();
  stream_.set_deadline(coarse_us() + limits_.stall_us);
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
  co_return co_await stream_.write_all("HTTP/1.1 100 Continue\r\n\r\n", More::kNo);
}

Task<Result<size_t>> Connection::read_body(std::span<std::byte> into) {
  if (into.empty()) co_return size_t{0};
  if (expectation_open_) {
    auto answered = co_await answer_expectation();
    if (!answered) co_return answered.take_error();
  }
  const uint64_t now = coarse_us();
  stream_.set_deadline(now + limits_.stall_us);
  const uint64_t seconds = now > began_us_ ? (now - began_us_) / 1'000'000 : 0;
  if (seconds > 60 && bytes_received() / seconds < kLeastBytesPerSecond) {
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
  stream_.expect_long_body(body_left_ > kLongBody);
  if (begin_ < end_) {
    const size_t take = std::min(want, end_ - begin_);
    std::memcpy(into.data(), buffer_.get() + begin_, take);
    begin_ += take;
    body_left_ -= take;
    co_return take;
  }
  auto got = co_await stream_.read_some(into.first(want));
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

Task<Result<Bytes>> Connection::read_whole_body(Blocks& blocks, size_t most, Budget& budget, Charge& charge) {
  if (!request_.content_length)
    co_return make_error(Code::kInvalid, "the request does not say how long its body is");
  const auto length = *request_.content_length;
  if (length > most)
    co_return make_error(Code::kTooLarge, "the body has {} bytes, more than {}", length, most);
  const Block block = blocks.take(length);
  size_t have = 0;
  while (have < length) {
    // A claimed length is charged as its bytes arrive.
    const size_t step = std::min<size_t>(length - have, std::max<size_t>(have, 64 << 10));
    if (!charge.try_grow(budget, have + step))
      co_return make_error(Code::kUnavailable, "too many requests with large bodies are under way");
    auto got = co_await read_body(block.span().subspan(have, step));
    if (!got) co_return got.take_error();
    if (*got == 0) co_return make_error(Code::kTruncated, "the body ends at byte {} of {}", have, length);
    have += *got;
  }
  co_return block.share(length);
}

HeadBuilder& Connection::start(int status) {
  head_.start(status);
  return head_;
}

Task<Status> Connection::send(std::string_view body, std::string_view more) {
  response_started_ = true;
  if (head_.status() != 204 && head_.status() != 304) head_.add("Content-Length", body.size() + more.size());
  request_.keep_alive = can_go_on();
  const std::string& head = head_.finish(request_.keep_alive);
  if (!more.empty() && request_.method != "HEAD") {
    const std::string begin = std::string(head).append(body);
    co_return co_await stream_.write_both(begin, more);
  }
  co_return co_await stream_.write_both(head, request_.method == "HEAD" ? std::string_view() : body);
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
  if (body_follows && !server_tls_ && length.value_or(kCorkAbove + 1) > kCorkAbove) stream_.cork(true);
  const More more = body_follows && !stream_.is_corked() ? More::kYes : More::kNo;
  const size_t sent = server_tls_ ? 0 : stream_.write_at_once(head, more);
  if (sent == head.size()) co_return Status();
  co_return co_await stream_.write_all(std::string_view(head).substr(sent), more);
}

Task<Status> Connection::send_bytes(std::string_view bytes) {
  if (bytes.empty()) co_return Status();
  if (!chunked_response_) co_return co_await stream_.write_all(bytes, More::kNo);
  const std::string size = fmt::format("{:x}\r\n", bytes.size());
  auto begun = co_await stream_.write_all(size, More::kYes);
  if (!begun) co_return begun.take_error();
  auto sent = co_await stream_.write_all(bytes, More::kYes);
  if (!sent) co_return sent.take_error();
  co_return co_await stream_.write_all("\r\n", More::kNo);
}

Task<Status> Connection::send_file(int descriptor, uint64_t offset, uint64_t size) {
  if (chunked_response_) return send_file_chunk(descriptor, offset, size);
  return stream_.send_file(descriptor, offset, size);
}

Task<Status> Connection::send_file_chunk(int descriptor, uint64_t offset, uint64_t size) {
  const std::string line = fmt::format("{:x}\r\n", size);
  auto begun = co_await stream_.write_all(line, More::kYes);
  if (!begun) co_return begun.take_error();
  auto sent = co_await stream_.send_file(descriptor, offset, size);
  if (!sent) co_return sent.take_error();
  co_return co_await stream_.write_all("\r\n");
}

Task<Status> Connection::end_body() {
  if (chunked_response_ && request_.method != "HEAD") {
    auto ended = co_await stream_.write_all("0\r\n\r\n", More::kNo);
    if (!ended) co_return ended.take_error();
  }
  stream_.cork(false);
  if (server_tls_) co_return co_await stream_.flush();
  co_return Status();
}

Task<Status> Connection::end_request() {
  stream_.cork(false);
  if (!request_.keep_alive) co_return Status();
  std::byte scratch[4096];
  while (body_left_ > 0) {
    auto got = co_await read_body(scratch);
    if (!got) co_return got.take_error();
  }
  co_return Status();
}

}  // namespace millrace::net
