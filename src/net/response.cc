// Parses response heads, and bodies by length or by chunks.
#include "net/response.h"

#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "base/text.h"

namespace millrace::net {

namespace {

constexpr std::string_view kBlanks = " \t\r";  // lines are cut at the line feed

constexpr size_t kMaxAnswerHeaders = 200;
constexpr int kMaxInterim = 8;
constexpr size_t kFillBytes = 16 << 10;

Error bad_answer(std::string_view why) {
  return make_error(Code::kCorrupt, "the answer is not HTTP: {}", why);
}

}  // namespace

const std::string* ResponseHead::find(std::string_view name) const {
  for (const HeaderField& header : headers) {
    if (header.first == name) return &header.second;
  }
  return nullptr;
}

Result<ResponseHead> parse_response_head(std::string_view text) {
  ResponseHead head;
  const size_t line_end = text.find('\n');
  const std::string_view line = trim(text.substr(0, line_end), kBlanks);
  if (!line.starts_with("HTTP/1.") || line.size() < 12 || line[8] != ' ') return bad_answer("no status line");
  const auto status = parse_number<uint64_t>(line.substr(9, 3));
  if (!status || *status < 100 || (line.size() > 12 && line[12] != ' ')) return bad_answer("no status");
  head.status = static_cast<int>(*status);
  head.keep_alive = line[7] != '0';
  text.remove_prefix(std::min(line_end, text.size() - 1) + 1);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view field = trim(text.substr(0, end), kBlanks);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (field.empty()) break;
    const size_t colon = field.find(':');
    if (colon == std::string_view::npos || colon == 0) return bad_answer("a header without a name");
    if (head.headers.size() == kMaxAnswerHeaders) return bad_answer("too many headers");
    head.headers.emplace_back(lower_case(field.substr(0, colon)), trim(field.substr(colon + 1), kBlanks));
  }
  if (const std::string* connection = head.find("connection")) {
    const std::string said = lower_case(*connection);
    if (said.find("close") != std::string::npos) head.keep_alive = false;
    if (said.find("keep-alive") != std::string::npos) head.keep_alive = true;
  }
  return head;
}

Task<Result<AsyncResponse>> AsyncResponse::receive(Lease lease, std::string_view method,
                                                   const Timeouts& timeouts, Keep keep) {
  AsyncResponse response;
  response.lease_ = std::move(lease);
  response.keep_ = keep;
  Stream& stream = *response.lease_.stream;
  if (timeouts.first_byte_ms > 0) stream.set_read_patience(patience_us(timeouts.first_byte_ms));
  for (int interim = 0; interim < kMaxInterim; ++interim) {
    auto received = co_await response.receive_head();
    if (!received) co_return received.take_error();
    if (response.head_.status < 200) continue;
    stream.set_read_patience(patience_us(timeouts.io_ms));
    auto begun = response.begin_body(method);
    if (!begun) co_return begun.take_error();
    co_return response;
  }
  co_return bad_answer("too many interim responses");
}

Task<Status> AsyncResponse::receive_head() {
  size_t end = std::string::npos;
  while ((end = buffer_.find("\r\n\r\n", used_)) == std::string::npos) {
    const size_t before = buffer_.size() - used_;
    if (before > kMaxHeadBytes) co_return bad_answer("its head is too long");
    auto filled = co_await fill();
    if (!filled) co_return filled.take_error();
    if (buffer_.size() - used_ > before) continue;
    if (before == 0)
      co_return make_error(Code::kUnavailable, "the server closed the connection without an answer");
    co_return make_error(Code::kUnavailable, "the connection was cut in the head of the answer");
  }
  auto parsed = parse_response_head(std::string_view(buffer_).substr(used_, end + 4 - used_));
  if (!parsed) co_return parsed.take_error();
  head_ = parsed.take();
  used_ = end + 4;
  co_return Status();
}

Status AsyncResponse::begin_body(std::string_view method) {
  if (method == "HEAD" || head_.status == 204 || head_.status == 304) {
    end();
    return {};
  }
  const std::string* coding = head_.find("transfer-encoding");
  if (coding != nullptr && lower_case(*coding) != "identity") {
    if (lower_case(*coding) != "chunked")
      return make_error(Code::kUnsupported, "the transfer coding {}", *coding);
    framing_ = Framing::kChunked;
    return {};
  }
  if (const std::string* text = head_.find("content-length")) {
    const auto bytes = parse_number<uint64_t>(*text);
    if (!bytes) return bad_answer("its length is not a number");
    framing_ = Framing::kLength;
    length_ = *bytes;
    left_ = *bytes;
    if (left_ == 0) end();
    return {};
  }
  framing_ = Framing::kUntilClose;
  head_.keep_alive = false;
  return {};
}

void AsyncResponse::end() {
  framing_ = Framing::kNone;
  // More bytes than the answer has: the two sides are out of step.
  if (keep_ == Keep::kIfInStep && head_.keep_alive && used_ == buffer_.size()) lease_.keep();
  lease_ = Lease();
}

Task<Status> AsyncResponse::fill() {
  if (used_ == buffer_.size()) {
    buffer_.clear();
    used_ = 0;
  }
  const size_t have = buffer_.size();
  buffer_.resize(have + kFillBytes);
  const std::span<std::byte> room = std::as_writable_bytes(std::span(buffer_)).subspan(have);
  auto got = co_await lease_.stream->read_some(room);
  buffer_.resize(have + (got ? *got : 0));
  if (!got) co_return got.take_error();
  co_return Status();
}

size_t AsyncResponse::take_buffered(std::span<std::byte> into) {
  const size_t size = std::min(into.size(), buffer_.size() - used_);
  std::memcpy(into.data(), buffer_.data() + used_, size);
  used_ += size;
  return size;
}

Task<Result<size_t>> AsyncResponse::read_chunked(std::span<std::byte> into) {
  while (!chunks_.finished()) {
    if (used_ == buffer_.size()) {
      auto filled = co_await fill();
      if (!filled) co_return filled.take_error();
      if (used_ == buffer_.size())
        co_return make_error(Code::kTruncated, "the connection was cut at byte {} of the body", received_);
    }
    auto step = chunks_.decode(std::string_view(buffer_).substr(used_, into.size()));
    if (!step) co_return bad_answer(step.error().message());
    if (!step->plain.empty()) std::memcpy(into.data(), step->plain.data(), step->plain.size());
    used_ += step->used;
    if (!step->plain.empty()) co_return step->plain.size();
  }
  end();
  co_return size_t{0};
}

Task<Result<size_t>> AsyncResponse::read_some(std::span<std::byte> into) {
  MR_ASSERT(!into.empty());
  if (framing_ == Framing::kNone) co_return size_t{0};
  Result<size_t> got;
  if (framing_ == Framing::kChunked) {
    got = co_await read_chunked(into);
  } else {
    if (framing_ == Framing::kLength) into = into.first(std::min<uint64_t>(into.size(), left_));
    if (used_ < buffer_.size()) {
      got = take_buffered(into);
    } else {
      got = co_await lease_.stream->read_some(into);
    }
  }
  if (!got) co_return got.take_error();
  if (framing_ == Framing::kLength) {
    if (*got == 0)
      co_return make_error(Code::kTruncated, "the connection was cut at byte {} of {}", received_, *length_);
    left_ -= *got;
  }
  received_ += *got;
  const bool whole =
      framing_ == Framing::kLength ? left_ == 0 : framing_ == Framing::kUntilClose && *got == 0;
  if (whole) end();
  co_return *got;
}

Task<Result<std::string>> AsyncResponse::read_all(uint64_t most_bytes) {
  std::string body;
  while (true) {
    const size_t have = body.size();
    body.resize(have + std::min<uint64_t>(kReadBytes, framing_ == Framing::kLength ? left_ + 1 : kReadBytes));
    const std::span<std::byte> room = std::as_writable_bytes(std::span(body)).subspan(have);
    auto got = co_await read_some(room);
    if (!got) co_return got.take_error();
    body.resize(have + *got);
    if (*got == 0) co_return body;
    if (body.size() > most_bytes)
      co_return make_error(Code::kTooLarge, "the body is larger than {} bytes", most_bytes);
  }
}

Task<Result<Bytes>> AsyncResponse::read_all(Blocks& blocks, uint64_t most_bytes) {
  if (!length_) co_return make_error(Code::kInvalid, "the answer does not say how long its body is");
  if (*length_ > most_bytes)
    co_return make_error(Code::kTooLarge, "the body is larger than {} bytes", most_bytes);
  const Block block = blocks.take(*length_);
  size_t have = 0;
  while (have < *length_) {
    auto got = co_await read_some(block.span().subspan(have));
    if (!got) co_return got.take_error();
    have += *got;
  }
  co_return block.share(have);
}

Task<void> AsyncResponse::finish() {
  constexpr uint64_t kWorthReading = 64 << 10;
  if (framing_ == Framing::kNone || (framing_ == Framing::kLength && left_ > kWorthReading)) co_return;
  const auto read = co_await read_all(kWorthReading);
  static_cast<void>(read);  // not whole: the connection is closed
}

Task<Error> read_answer_error(const Request& request, AsyncResponse& response) {
  auto body = co_await response.read_all(kMaxErrorBody);
  co_return answer_error(request, response.status(), body ? std::string_view(*body) : std::string_view());
}

Error answer_error(const Request& request, Response& response) {
  auto body = response.read_all(kMaxErrorBody);
  return answer_error(request, response.status(), body ? std::string_view(*body) : std::string_view());
}

}  // namespace millrace::net
