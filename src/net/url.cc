// Parses URLs and queries, and encodes their parts.
#include "net/url.h"

#include <optional>

#include "base/number.h"
#include "base/text.h"

namespace millrace::net {

namespace {

constexpr std::string_view kUpperHex = "0123456789ABCDEF";
constexpr size_t kMaxUrlBytes = 16 << 10;
constexpr size_t kMaxQueryItems = 1000;
constexpr size_t kMaxSchemeBytes = 64;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

void append_encoded(std::string& text, char c) {
  const auto byte = static_cast<unsigned char>(c);
  text += '%';
  text += kUpperHex[byte >> 4];
  text += kUpperHex[byte & 15];
}

// Bytes that may not stand in a request line are encoded, all others left as the person wrote them.
std::string encode_unsendable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '"' || c == '<' || c == '>' || c == '\\' || c == '^' ||
        c == '`' || c == '{' || c == '}' || c == '|') {
      append_encoded(out, c);
    } else {
      out += c;
    }
  }
  return out;
}

// The schemes whose addresses name a bucket instead of a host. What follows is the key itself, byte by byte.
bool is_alias(std::string_view scheme) {
  return scheme.starts_with("mr+");
}

bool names_bucket(std::string_view scheme) {
  return scheme == "s3" || scheme == "mr" || is_alias(scheme);
}

std::optional<std::string> find_scheme(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon > kMaxSchemeBytes) return std::nullopt;
  const std::string scheme = lower_case(text.substr(0, colon));
  if (scheme == "http" || scheme == "https" || names_bucket(scheme)) return scheme;
  return std::nullopt;
}

Error bad_url(std::string_view text, std::string_view why) {
  return make_error(Code::kInvalid, "the address {}: {}", printable(text), why)
      .with_hint("for example http://127.0.0.1:9400/bucket/key, mr://bucket/key or s3://bucket/key");
}

bool is_host_character(char c) {
  return is_unreserved(c) || c == ':' || c == '%';
}

Status take_authority(Url& url, std::string_view authority, std::string_view text) {
  if (authority.find('@') != std::string_view::npos)
    return bad_url(text, "user names and passwords in addresses are not used");
  std::string_view port;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return bad_url(text, "a [ has no ]");
    url.host = lower_case(authority.substr(1, close - 1));
    port = authority.substr(close + 1);
    if (!port.empty() && !port.starts_with(':'))
      return bad_url(text, "there is something between ] and the port");
    if (!port.empty()) port.remove_prefix(1);
  } else {
    const size_t colon = authority.find(':');
    url.host = lower_case(authority.substr(0, colon));
    if (colon != std::string_view::npos) port = authority.substr(colon + 1);
    if (url.host.find_first_of(":%") != std::string::npos)
      return bad_url(text, "the host has a strange character");
  }
  if (url.host.empty()) return bad_url(text, "has no host");
  for (const char c : url.host) {
    if (!is_host_character(c)) return bad_url(text, "the host has a strange character");
  }
  if (port.empty()) return {};
  url.port = parse_number<uint16_t>(port).value_or(0);
  if (url.port == 0) return bad_url(text, "the port is not a number from 1 to 65535");
  return {};
}

}  // namespace

bool is_url(std::string_view text) {
  return find_scheme(text).has_value();
}

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kMaxUrlBytes) return make_error(Code::kTooLarge, "an address of {} bytes", text.size());
  const auto scheme = find_scheme(text);
  if (!scheme) return bad_url(text, "does not begin with http://, https://, mr:// or s3://");
  Url url;
  url.scheme = *scheme;
  std::string_view rest = text.substr(scheme->size() + 3);
  if (names_bucket(url.scheme)) {
    const size_t slash = rest.find('/');
    url.host = rest.substr(0, slash);
    if (url.host.empty() && !is_alias(url.scheme)) return bad_url(text, "names no bucket");
    for (const char c : url.host) {
      if (!is_unreserved(c)) return bad_url(text, "the bucket has a strange character");
    }
    if (slash != std::string_view::npos) url.path = percent_encode(rest.substr(slash), Encode::kPath);
    return url;
  }
  // A fragment is never sent.
  rest = rest.substr(0, rest.find('#'));
  const size_t authority_end = std::min(rest.find_first_of("/?"), rest.size());
  MR_TRY(take_authority(url, rest.substr(0, authority_end), text));
  rest.remove_prefix(authority_end);
  const size_t question = rest.find('?');
  url.path = encode_unsendable(rest.substr(0, question));
  if (url.path.empty()) url.path = "/";
  if (question != std::string_view::npos) url.query = encode_unsendable(rest.substr(question + 1));
  return url;
}

std::string Url::text() const {
  if (names_bucket(scheme)) {
    auto key = percent_decode(path);
    return scheme + "://" + host + (key ? key.take() : path);
  }
  std::string text = scheme + "://";
  text += host.find(':') == std::string::npos ? host : "[" + host + "]";
  if (port != 0) text += ":" + std::to_string(port);
  text += path;
  if (!query.empty()) text += "?" + query;
  return text;
}

std::string percent_encode(std::string_view bytes, Encode what) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 4);
  for (const char c : bytes) {
    if (is_unreserved(c) || (c == '/' && what == Encode::kPath)) {
      text += c;
    } else {
      append_encoded(text, c);
    }
  }
  return text;
}

Result<std::string> percent_decode(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      bytes += text[at];
      continue;
    }
    const int high = at + 2 < text.size() ? hex_value(text[at + 1]) : -1;
    const int low = at + 2 < text.size() ? hex_value(text[at + 2]) : -1;
    if (high < 0 || low < 0)
      return make_error(Code::kInvalid, "a % without two hex digits in {}", printable(text, 200));
    bytes += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return bytes;
}

Result<std::string> decode_form(std::string_view text) {
  std::string spaced(text);
  for (char& c : spaced) {
    if (c == '+') c = ' ';
  }
  return percent_decode(spaced);
}

Result<std::vector<QueryItem>> parse_query(std::string_view query) {
  std::vector<QueryItem> items;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (item.empty()) continue;
    if (items.size() == kMaxQueryItems)
      return make_error(Code::kTooLarge, "a query of more than {} items", kMaxQueryItems);
    const size_t equals = std::min(item.find('='), item.size());
    std::string name = MR_TRY(decode_form(item.substr(0, equals)));
    std::string value = MR_TRY(decode_form(item.substr(std::min(equals + 1, item.size()))));
    items.emplace_back(std::move(name), std::move(value));
  }
  return items;
}

}  // namespace millrace::net
