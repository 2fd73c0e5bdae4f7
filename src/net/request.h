// Request: what a client asks, and the text of its head.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "net/signing.h"
#include "net/url.h"

namespace millrace::net {

struct FileRange {
  const File* file = nullptr;  // outlives the request
  uint64_t offset = 0;
  uint64_t size = 0;
};
// Bytes that are made while they are sent. Asked again from the start when the request is repeated. On a loop
// making them must not wait.
struct GeneratedBody {
  uint64_t size = 0;
  std::function<Result<size_t>(uint64_t offset, std::span<std::byte> into)> read;
};
// One after the other, as if they were one; the first is short.
struct TwoViews {
  std::string_view first;
  std::string_view second;
};
// A view outlives the request.
using RequestBody = std::variant<std::string_view, TwoViews, FileRange, GeneratedBody>;
uint64_t body_size(const RequestBody& body);

// kAuto: GET, HEAD, PUT and DELETE. kSafe: the caller knows that doing it twice is doing it once.
enum class Repeat { kAuto, kSafe, kNever };

struct Request {
  std::string method = "GET";
  Url url;
  std::vector<HeaderField> headers;  // lower-case names
  RequestBody body = std::string_view();
  Repeat repeat = Repeat::kAuto;
  // host:port of those who are asked before the host of the address, best first (net/neighbours.h).
  std::vector<std::string> preferred;
};
bool may_repeat(const Request& request);

uint16_t port_of(const Url& url);
std::string place_of(const Url& url);  // scheme, host and port: whom a connection reaches
std::string host_header(const Url& url);

// Signed where there are credentials. kInvalid: it has parts that would break out of their line.
Result<std::string> head_text(const Request& request, const std::string& user_agent,
                              const std::optional<Credentials>& credentials);

// The object is there already, or is another version than the request would have.
inline constexpr Reason kConditionNotMet{Code::kExists, "condition not met"};
// What an unwelcome answer means, with the code and message of an S3 error body.
Error answer_error(const Request& request, int status, std::string_view body);
inline constexpr uint64_t kMaxErrorBody = 64 << 10;
// Of <Tag>text</Tag>, unescaped; empty if there is none.
std::string find_xml_text(std::string_view xml, std::string_view tag);

}  // namespace millrace::net
