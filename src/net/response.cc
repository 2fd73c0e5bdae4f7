// Heads, lengths and chunks.
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

Result<Response> Response::receive(std::unique_ptr<Wire> wire, std::string_view method, GiveBack give_back) {
  Response response;
  response.wire_ = std::move(wire);
  response.give_back_ = std::move(give_back);
  for (int interim = 0; interim < kMaxInterim; ++interim) {
    size_t end = std::string::npos;
    while ((end = response.buffer_.find("\r\n\r\n", response.used_)) == std::string::npos) {
      if (response.buffer_.size() - response.used_ > kMaxHeadBytes) return bad_answer("its head is too long");
      const size_t before = response.buffer_.size() - response.used_;
      MR_TRY(response.fill());
      if (response.buffer_.size() - response.used_ > before) continue;
      if (before == 0)
        return make_error(Code::kUnavailable, "the server closed the connection without an answer");
      return make_error(Code::kUnavailable, "the connection was cut in the head of the answer");
    }
    const std::string_view text =
        std::string_view(response.buffer_).substr(response.used_, end + 4 - response.used_);
    response.head_ = MR_TRY(parse_response_head(text));
    response.used_ = end + 4;
    if (response.head_.status >= 200) {
      MR_TRY(response.begin_body(method));
      return response;
    }
  }
  return bad_answer("too many interim responses");
}

Status Response::begin_body(std::string_view method) {
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

void Response::end() {
  framing_ = Framing::kNone;
  // More bytes than the answer has: the two sides are out of step.
  if (wire_ && head_.keep_alive && used_ == buffer_.size() && give_back_) give_back_(std::move(wire_));
  wire_.reset();
  give_back_ = nullptr;
}

Status Response::fill() {
  if (used_ == buffer_.size()) {
    buffer_.clear();
    used_ = 0;
  }
  const size_t have = buffer_.size();
  buffer_.resize(have + kFillBytes);
  auto got = wire_->read_some(std::as_writable_bytes(std::span(buffer_)).subspan(have));
  buffer_.resize(have + (got ? *got : 0));
  if (!got) return got.take_error();
  return {};
}

Result<size_t> Response::take(std::span<std::byte> into) {
  if (used_ < buffer_.size()) {
    const size_t size = std::min(into.size(), buffer_.size() - used_);
    std::memcpy(into.data(), buffer_.data() + used_, size);
    used_ += size;
    return size;
  }
  return wire_->read_some(into);
}

Result<size_t> Response::read_chunked(std::span<std::byte> into) {
  while (!chunks_.finished()) {
    if (used_ == buffer_.size()) {
      MR_TRY(fill());
      if (used_ == buffer_.size())
        return make_error(Code::kTruncated, "the connection was cut at byte {} of the body", received_);
    }
    auto step = chunks_.decode(std::string_view(buffer_).substr(used_, into.size()));
    if (!step) return bad_answer(step.error().message());
    if (!step->plain.empty()) std::memcpy(into.data(), step->plain.data(), step->plain.size());
    used_ += step->used;
    if (!step->plain.empty()) return step->plain.size();
  }
  end();
  return size_t{0};
}

Result<size_t> Response::read_some(std::span<std::byte> into) {
  MR_ASSERT(!into.empty());
  size_t got = 0;
  switch (framing_) {
    case Framing::kNone:
      return size_t{0};
    case Framing::kChunked:
      got = MR_TRY(read_chunked(into));
      break;
    case Framing::kLength:
      got = MR_TRY(take(into.first(std::min<uint64_t>(into.size(), left_))));
      if (got == 0) {
        return make_error(Code::kTruncated, "the connection was cut at byte {} of {}", received_, *length_);
      }
      left_ -= got;
      break;
    case Framing::kUntilClose:
      got = MR_TRY(take(into));
      if (got == 0) end();
      break;
  }
  received_ += got;
  if (framing_ == Framing::kLength && left_ == 0) end();
  return got;
}

Result<std::string> Response::read_all(uint64_t most_bytes) {
  std::string body;
  while (true) {
    const size_t have = body.size();
    body.resize(have + std::min<uint64_t>(kReadBytes, framing_ == Framing::kLength ? left_ + 1 : kReadBytes));
    const size_t got = MR_TRY(read_some(std::as_writable_bytes(std::span(body)).subspan(have)));
    body.resize(have + got);
    if (got == 0) return body;
    if (body.size() > most_bytes)
      return make_error(Code::kTooLarge, "the body is larger than {} bytes", most_bytes);
  }
}

void Response::finish() {
  constexpr uint64_t kWorthReading = 64 << 10;
  if (framing_ == Framing::kNone || (framing_ == Framing::kLength && left_ > kWorthReading)) return;
  static_cast<void>(read_all(kWorthReading));
}

}  // namespace millrace::net
