// Parses request heads. Strict where leniency would let two parties read one message differently.
#include "net/http.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"

namespace millrace::net {

namespace {

constexpr size_t kMaxChunkLine = 256;

constexpr std::array<bool, 256> make_token_table() {
  std::array<bool, 256> table{};
  for (char c = '0'; c <= '9'; ++c) table[static_cast<unsigned char>(c)] = true;
  for (char c = 'a'; c <= 'z'; ++c) table[static_cast<unsigned char>(c)] = true;
  for (char c = 'A'; c <= 'Z'; ++c) table[static_cast<unsigned char>(c)] = true;
  for (const char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'}) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}
constexpr std::array<bool, 256> kToken = make_token_table();

bool is_token(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return kToken[static_cast<unsigned char>(c)]; });
}

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (equal_names(trim(list.substr(0, comma)), word)) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

Error bad(std::string_view what) {
  return make_error(Code::kInvalid, "bad request: {}", what);
}

Status parse_request_line(std::string_view line, RequestHead& head) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return bad("the first line is not METHOD TARGET HTTP/1.1");
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(head.method)) return bad("the method is not a word");
  if (version == "HTTP/1.1") {
    head.keep_alive = true;
    head.is_http11 = true;
  } else if (version == "HTTP/1.0") {
    head.keep_alive = false;
    head.is_http11 = false;
  } else if (version.starts_with("HTTP/")) {
    return make_error(Code::kUnsupported, "{} is not spoken here", printable(version, 16));
  } else {
    return bad("the first line does not end in HTTP/1.1");
  }
  std::string_view target = head.target;
  head.host = {};
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const std::string_view authority = target.substr(target.find("//") + 2);
    const size_t end = std::min(authority.find_first_of("/?"), authority.size());
    head.host = authority.substr(0, end);
    if (head.host.empty()) return bad("the target has no host");
    if (end < authority.size() && authority[end] == '?') return bad("the target has no path");
    target = end == authority.size() ? "/" : authority.substr(end);
  }
  if (target.empty() || (target[0] != '/' && target != "*")) return bad("the target does not start with /");
  for (const char c : head.target) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f)
      return bad("the target holds a blank or control character");
  }
  const size_t mark = target.find('?');
  head.path = target.substr(0, mark);
  head.query = mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  return {};
}

Status take_header(RequestHead& head, std::string_view name, std::string_view value) {
  switch (name.size()) {
    case 6:
      if (equal_names(name, "expect")) head.expects_continue = equal_names(value, "100-continue");
      break;
    case 10:
      if (equal_names(name, "connection")) {
        if (has_word(value, "close"))
          head.keep_alive = false;
        else if (has_word(value, "keep-alive"))
          head.keep_alive = true;
      }
      break;
    case 14:
      if (equal_names(name, "content-length")) {
        const auto length = parse_number<uint64_t>(value);
        if (!length) return bad("Content-Length is not a number");
        if (head.content_length && *head.content_length != *length)
          return bad("two different Content-Lengths");
        head.content_length = length;
      }
      break;
    case 17:
      if (equal_names(name, "transfer-encoding")) {
        if (!equal_names(value, "chunked") || head.chunked) {
          return make_error(Code::kUnsupported, "transfer coding {} is not supported", printable(value, 64));
        }
        head.chunked = true;
      }
      break;
    default:
      break;
  }
  return {};
}

// Who is asked decides what the path means: it must be said once.
Status take_host(RequestHead& head, size_t hosts) {
  if (hosts == 0 && head.is_http11) return bad("there is no Host header");
  const std::string_view host = head.get("host");
  if (!head.host.empty() && hosts > 0 && !equal_names(head.host, host))
    return bad("the target and the Host header name two hosts");
  if (head.host.empty()) head.host = host;
  for (const char c : head.host) {
    const bool good = is_alphanumeric(c) || std::string_view("-._~:[]%").find(c) != std::string_view::npos;
    if (!good) return bad("the host has a strange character");
  }
  return {};
}

}  // namespace

bool equal_names(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

std::optional<std::string_view> RequestHead::find(std::string_view name) const {
  for (const HeaderView& header : headers) {
    if (header.name.size() == name.size() && equal_names(header.name, name)) return header.value;
  }
  return std::nullopt;
}

std::optional<size_t> find_head_end(std::string_view bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  return end + 4;
}

Status judge_first_byte(char first) {
  constexpr char kTlsHandshake = 0x16;
  if (first == kTlsHandshake)
    return bad("this port speaks plain HTTP: begin the address with http:// instead of https://");
  if (!kToken[static_cast<unsigned char>(first)]) return bad("the method is not a word");
  return {};
}

Status parse_request(std::string_view bytes, RequestHead& head) {
  head.headers.clear();
  head.chunked = false;
  head.expects_continue = false;
  head.content_length.reset();
  size_t end = bytes.find("\r\n");
  if (end == std::string_view::npos) return bad("no line end");
  MR_TRY(parse_request_line(bytes.substr(0, end), head));
  size_t hosts = 0;
  size_t at = end + 2;
  while (true) {
    end = bytes.find("\r\n", at);
    if (end == std::string_view::npos) return bad("the head does not end");
    const std::string_view line = bytes.substr(at, end - at);
    at = end + 2;
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return bad("a header without a colon");
    const std::string_view name = line.substr(0, colon);
    // This also refuses folded lines and "Name :", by which servers in a row come to disagree.
    if (!is_token(name)) return bad("a header's name is not a word");
    const std::string_view value = trim(line.substr(colon + 1));
    for (const char c : value) {
      if ((static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f) {
        return bad("a control character in a header");
      }
    }
    if (head.headers.size() == kMaxHeaders)
      return make_error(Code::kTooLarge, "more than {} headers", kMaxHeaders);
    head.headers.push_back({name, value});
    if (equal_names(name, "host")) ++hosts;
    MR_TRY(take_header(head, name, value));
  }
  if (hosts > 1) return bad("two Host headers");
  MR_TRY(take_host(head, hosts));
  // Both at once is how requests are smuggled.
  if (head.chunked && head.content_length) return bad("Content-Length beside Transfer-Encoding");
  return {};
}

std::string_view status_text(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Status";
  }
}

void HeadBuilder::start(int status) {
  status_ = status;
  text_.clear();
  if (status == 200) {
    text_ += "HTTP/1.1 200 OK\r\n";
  } else {
    fmt::format_to(std::back_inserter(text_), "HTTP/1.1 {} {}\r\n", status, status_text(status));
  }
  text_ += "Server: millrace\r\nDate: ";
  text_ += current_date();
  text_ += "\r\n";
}

void HeadBuilder::add(std::string_view name, std::string_view value) {
  text_ += name;
  text_ += ": ";
  text_ += value.substr(0, value.find_first_of(std::string_view("\r\n\0", 3)));
  text_ += "\r\n";
}

void HeadBuilder::add(std::string_view name, uint64_t value) {
  char digits[24];
  const auto [end, problem] = std::to_chars(digits, digits + sizeof digits, value);
  add(name, std::string_view(digits, static_cast<size_t>(end - digits)));
}

const std::string& HeadBuilder::finish(bool keep_alive) {
  text_ += keep_alive ? "\r\n" : "Connection: close\r\n\r\n";
  return text_;
}

std::string_view current_date() {
  thread_local int64_t second = -1;
  thread_local std::string text;
  const int64_t now = wall_ms() / 1000;
  if (now != second) {
    second = now;
    text = format_http_date(now * 1000);
  }
  return text;
}

Result<ChunkedDecoder::Step> ChunkedDecoder::decode(std::string_view input) {
  Step step;
  while (step.used < input.size() && state_ != State::kEnd) {
    if (state_ == State::kData) {
      const size_t take = static_cast<size_t>(std::min<uint64_t>(left_, input.size() - step.used));
      step.plain = input.substr(step.used, take);
      step.used += take;
      left_ -= take;
      if (left_ == 0) state_ = State::kDataCr;
      return step;
    }
    MR_TRY(this->take(input[step.used]));
    ++step.used;
  }
  return step;
}

Status ChunkedDecoder::take(char c) {
  const auto expect = [&](char wanted, State next) -> Status {
    if (c != wanted) return make_error(Code::kInvalid, "bad chunked body: a line end is missing");
    state_ = next;
    return {};
  };
  // A line ends with CR and LF: where one party takes a bare LF for its end, two see different messages.
  const auto check_text = [&]() -> Status {
    if (c == '\r' || c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != 0x7f)) return {};
    return make_error(Code::kInvalid, "bad chunked body: a control character in a line");
  };
  if (++line_ > kMaxChunkLine) return make_error(Code::kInvalid, "bad chunked body: a line is too long");
  switch (state_) {
    case State::kSize: {
      const char l = lower(c);
      const int digit = l >= '0' && l <= '9' ? l - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
      if (digit >= 0) {
        if (++digits_ > 15) return make_error(Code::kInvalid, "bad chunked body: a chunk is too large");
        left_ = left_ * 16 + static_cast<uint64_t>(digit);
        return {};
      }
      if (digits_ == 0) return make_error(Code::kInvalid, "bad chunked body: a chunk has no size");
      if (c == ';' || c == ' ' || c == '\t') {
        state_ = State::kExtension;
        return {};
      }
      return expect('\r', State::kSizeEnd);
    }
    case State::kExtension:
      if (c == '\r') state_ = State::kSizeEnd;
      return check_text();
    case State::kSizeEnd:
      MR_TRY(expect('\n', left_ > 0 ? State::kData : State::kTrailerStart));
      digits_ = 0;
      line_ = 0;
      return {};
    case State::kDataCr:
      line_ = 0;
      return expect('\r', State::kDataLf);
    case State::kDataLf:
      return expect('\n', State::kSize);
    case State::kTrailerStart:
      state_ = c == '\r' ? State::kTrailerEnd : State::kTrailer;
      return check_text();
    case State::kTrailer:
      if (c == '\r') state_ = State::kTrailerLineEnd;
      return check_text();
    case State::kTrailerLineEnd:
      return expect('\n', State::kTrailerStart);
    case State::kTrailerEnd:
      return expect('\n', State::kEnd);
    case State::kData:
    case State::kEnd:
      break;
  }
  return {};
}

}  // namespace millrace::net
