// Client: blocking HTTP/1.1 requests from many threads, over connections that are kept for the next one.
//
// A request is sent, redirects are followed, and failures that may pass are tried again with growing pauses,
// as long as repeating cannot do harm. What fails in the middle of a body is the reader's to mend
// (net/ranged.h). Thread-safe; outlives its responses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "net/response.h"
#include "net/signing.h"
#include "net/url.h"
#include "net/wire.h"

namespace millrace::net {

inline constexpr int kMaxRedirects = 5;
inline constexpr int64_t kFirstPauseMs = 100;
inline constexpr int64_t kLongestPauseMs = 10'000;
inline constexpr int64_t kLongestRetryAfterMs = 30'000;  // whatever the server asks for

struct ClientOptions {
  Timeouts timeouts;
  size_t connections_per_host = 64;
  Verify verify = Verify::kPeer;
  std::string ca_file;                     // empty: the system's authorities
  std::optional<Credentials> credentials;  // every request is signed with them
  std::string user_agent = "millrace";
  int most_attempts = 5;
  // A host that answered before may be away for so long, say while it is started again.
  int64_t patience_ms = 60'000;
  std::shared_ptr<Lifeline> lifeline;  // may be null; cutting it ends every call
};

struct FileRange {
  const File* file = nullptr;  // outlives the request
  uint64_t offset = 0;
  uint64_t size = 0;
};
// Bytes that are made while they are sent. Asked again from the start when the request is repeated.
struct GeneratedBody {
  uint64_t size = 0;
  std::function<Result<size_t>(uint64_t offset, std::span<std::byte> into)> read;
};
using RequestBody = std::variant<std::string_view, FileRange, GeneratedBody>;

// kAuto: GET, HEAD, PUT and DELETE. kSafe: the caller knows that doing it twice is doing it once.
enum class Repeat { kAuto, kSafe, kNever };

struct Request {
  std::string method = "GET";
  Url url;
  std::vector<HeaderField> headers;  // lower-case names
  RequestBody body = std::string_view();
  Repeat repeat = Repeat::kAuto;
};

class Client {
 public:
  static Result<std::unique_ptr<Client>> make(ClientOptions options);
  ~Client();

  // Any status is an answer; an error means that there was none.
  Result<Response> send(const Request& request);
  // A status outside 2xx is an error too, with what the server said about it.
  Result<Response> call(const Request& request);

  const ClientOptions& options() const { return options_; }
  // Between attempts; an error where the lifeline is cut.
  Status pause(int64_t ms) const;

 private:
  class Pool;
  Client(ClientOptions options, std::unique_ptr<TlsContext> tls);
  Result<Response> send_with_retries(const Request& request, const std::optional<Credentials>& credentials);
  Result<Response> send_once(const Request& request, const std::optional<Credentials>& credentials);
  Result<std::string> head_text(const Request& request, const std::optional<Credentials>& credentials) const;

  const ClientOptions options_;
  const std::unique_ptr<TlsContext> tls_;
  const std::unique_ptr<Pool> pool_;
};

uint64_t body_size(const RequestBody& body);
std::string host_header(const Url& url);
// What an unwelcome answer means, with the code and message of an S3 error body. Reads the body.
Error answer_error(const Request& request, Response& response);
// Of <Tag>text</Tag>, unescaped; empty if there is none.
std::string find_xml_text(std::string_view xml, std::string_view tag);

}  // namespace millrace::net
