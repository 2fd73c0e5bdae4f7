// Writes the head of a request, and reads what a refusal says.
#include "net/request.h"

#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "net/digest.h"

namespace millrace::net {

namespace {

constexpr uint64_t kWorthHashing = 1 << 20;

std::string payload_hash(const Request& request) {
  const auto* bytes = std::get_if<std::string_view>(&request.body);
  if (request.url.scheme == "https" || bytes == nullptr || bytes->size() > kWorthHashing)
    return std::string(kUnsignedPayload);
  return to_hex(digest(DigestKind::kSha256, *bytes));
}

Code code_of(int status) {
  switch (status) {
    case 401:
    case 403:
      return Code::kDenied;
    case 404:
    case 410:
      return Code::kNotFound;
    case 409:
      return Code::kExists;
    case 413:
      return Code::kTooLarge;
    case 405:
    case 501:
      return Code::kUnsupported;
    case 507:
      return Code::kNoSpace;
    default:
      return status >= 500 || status == 429 ? Code::kUnavailable : Code::kInvalid;
  }
}

}  // namespace

bool may_repeat(const Request& request) {
  if (request.repeat != Repeat::kAuto) return request.repeat == Repeat::kSafe;
  return request.method == "GET" || request.method == "HEAD" || request.method == "PUT" ||
         request.method == "DELETE";
}

uint16_t port_of(const Url& url) {
  if (url.port != 0) return url.port;
  return url.scheme == "https" ? 443 : 80;
}

std::string place_of(const Url& url) {
  return fmt::format("{}://{}:{}", url.scheme, url.host, port_of(url));
}

uint64_t body_size(const RequestBody& body) {
  if (const auto* bytes = std::get_if<std::string_view>(&body)) return bytes->size();
  if (const auto* both = std::get_if<TwoViews>(&body)) return both->first.size() + both->second.size();
  if (const auto* range = std::get_if<FileRange>(&body)) return range->size;
  return std::get<GeneratedBody>(body).size;
}

std::string host_header(const Url& url) {
  const std::string host = url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
  const bool usual = url.port == 0 || url.port == (url.scheme == "https" ? 443 : 80);
  return usual ? host : fmt::format("{}:{}", host, url.port);
}

Result<std::string> head_text(const Request& request, const std::string& user_agent,
                              const std::optional<Credentials>& credentials) {
  MR_TRY(parse_query(request.url.query));
  SignedRequest wire{request.method, request.url.path, request.url.query, {}};
  wire.headers.emplace_back("host", host_header(request.url));
  for (const HeaderField& header : request.headers) wire.headers.push_back(header);
  wire.headers.emplace_back("user-agent", user_agent);
  const uint64_t size = body_size(request.body);
  if (size > 0 || request.method == "PUT" || request.method == "POST")
    wire.headers.emplace_back("content-length", std::to_string(size));
  if (credentials) sign(wire, *credentials, payload_hash(request), wall_ms());
  std::string text = fmt::format("{} {}{}{} HTTP/1.1\r\n", wire.method, wire.path,
                                 wire.query.empty() ? "" : "?", wire.query);
  for (const HeaderField& header : wire.headers) {
    if (header.second.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
      return make_error(Code::kInvalid, "the header {} has a line break", header.first);
    text += header.first + ": " + header.second + "\r\n";
  }
  text += "\r\n";
  return text;
}

std::string find_xml_text(std::string_view xml, std::string_view tag) {
  const std::string open = fmt::format("<{}>", tag);
  const size_t start = xml.find(open);
  if (start == std::string_view::npos) return {};
  const size_t end = xml.find('<', start + open.size());
  if (end == std::string_view::npos) return {};
  std::string text(xml.substr(start + open.size(), end - start - open.size()));
  constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
      {"&lt;", "<"},  {"&gt;", ">"},   {"&quot;", "\""}, {"&apos;", "'"},
      {"&#39;", "'"}, {"&#34;", "\""}, {"&amp;", "&"}};
  for (const auto& [escape, plain] : kEscapes) {
    for (size_t at = 0; (at = text.find(escape, at)) != std::string::npos; at += plain.size())
      text.replace(at, escape.size(), plain);
  }
  return text;
}

Error answer_error(const Request& request, int status, std::string_view body) {
  const std::string code = find_xml_text(body, "Code");
  const std::string message = find_xml_text(body, "Message");
  // Some servers begin the message with the code.
  std::string said = code.empty() || message.starts_with(code) ? "" : fmt::format(": {}", code);
  if (!message.empty()) said += fmt::format(": {}", message);
  if (said.empty() && status == 404) said = ": not found";
  const std::string text = fmt::format("{} {}: the server answered {}{}", request.method, request.url.text(),
                                       status, printable(said, 500));
  Error error = status == 412 ? Error(kConditionNotMet, text) : Error(code_of(status), text);
  if (status == 401 || status == 403) {
    return std::move(error).with_hint(
        "check the access key, the secret key and the clock; are the keys allowed to do this?");
  }
  if (status == 507) return std::move(error).with_hint("free some space, or add a drive");
  return error;
}

}  // namespace millrace::net
