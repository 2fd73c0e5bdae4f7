// Connections kept, requests written, answers judged, failures repeated.
#include "net/client.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/number.h"
#include "base/random.h"
#include "base/text.h"
#include "net/digest.h"

namespace millrace::net {

namespace {

constexpr uint64_t kWorthHashing = 1 << 20;
constexpr uint64_t kMaxErrorBody = 64 << 10;
constexpr size_t kMaxIdlePerHost = 64;

bool may_repeat(const Request& request) {
  if (request.repeat != Repeat::kAuto) return request.repeat == Repeat::kSafe;
  return request.method == "GET" || request.method == "HEAD" || request.method == "PUT" ||
         request.method == "DELETE";
}

bool may_pass(int status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

bool is_away(const Result<Response>& answer) {
  if (!answer) return answer.error().code() == Code::kUnavailable;
  return answer->status() == 502 || answer->status() == 503 || answer->status() == 504;
}

uint16_t port_of(const Url& url) {
  if (url.port != 0) return url.port;
  return url.scheme == "https" ? 443 : 80;
}

std::string place_of(const Url& url) {
  return fmt::format("{}://{}:{}", url.scheme, url.host, port_of(url));
}

std::string payload_hash(const Request& request) {
  const auto* bytes = std::get_if<std::string_view>(&request.body);
  if (request.url.scheme == "https" || bytes == nullptr || bytes->size() > kWorthHashing)
    return std::string(kUnsignedPayload);
  return to_hex(digest(DigestKind::kSha256, *bytes));
}

uint64_t random_seed() {
  uint64_t seed = 0;
  std::memcpy(&seed, random_bytes(sizeof seed).data(), sizeof seed);
  return seed;
}

// Threads that failed together must not come back together: half of each pause is chance.
int64_t pause_before(int attempt, const Response* answer) {
  if (answer != nullptr) {
    if (const std::string* after = answer->find_header("retry-after")) {
      const auto seconds = parse_number<int64_t>(*after);
      // Also one that always says 0 is not asked faster and faster.
      const int64_t least = std::min(kFirstPauseMs / 10 * attempt, kLongestPauseMs);
      if (seconds && *seconds >= 0)
        return std::max(least, std::min(*seconds, kLongestRetryAfterMs / 1000) * 1000);
    }
  }
  const int64_t pause = std::min(kFirstPauseMs << std::min(attempt, 16), kLongestPauseMs);
  thread_local Random random(random_seed());
  return pause / 2 + static_cast<int64_t>(random.below(static_cast<uint64_t>(pause / 2) + 1));
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

// Connections that wait for their next request. Guards the number per host.
class Client::Pool {
 public:
  explicit Pool(const ClientOptions& options) : options_(options) {}

  // An idle connection, or leave to open one. The slot is given back with the lease.
  struct Lease {
    std::unique_ptr<Wire> wire;  // none: open one
  };
  Result<Lease> take(const std::string& place) {
    UniqueLock lock(mutex_);
    Host& host = hosts_[place];
    const auto free = [&]() MR_REQUIRES(mutex_) { return host.taken < options_.connections_per_host; };
    if (!freed_.wait_for(lock, std::chrono::milliseconds(options_.timeouts.io_ms), free))
      return make_error(Code::kUnavailable, "all {} connections to {} are in use",
                        options_.connections_per_host, place);
    ++host.taken;
    Lease lease;
    while (!host.idle.empty() && !lease.wire) {
      lease.wire = std::move(host.idle.back());
      host.idle.pop_back();
      if (lease.wire->is_stale()) lease.wire.reset();
    }
    return lease;
  }
  void keep(const std::string& place, std::unique_ptr<Wire> wire) {
    const MutexLock lock(mutex_);
    Host& host = hosts_[place];
    if (host.idle.size() < kMaxIdlePerHost) host.idle.push_back(std::move(wire));
  }
  void note_answer(const std::string& place) {
    const MutexLock lock(mutex_);
    hosts_[place].answered = true;
  }
  bool has_answered(const std::string& place) {
    const MutexLock lock(mutex_);
    return hosts_[place].answered;
  }
  void release(const std::string& place) {
    {
      const MutexLock lock(mutex_);
      --hosts_[place].taken;
    }
    freed_.notify_all();
  }

 private:
  struct Host {
    std::vector<std::unique_ptr<Wire>> idle;
    size_t taken = 0;
    bool answered = false;
  };
  const ClientOptions& options_;
  Mutex mutex_;
  ConditionVariable freed_;
  std::map<std::string, Host> hosts_ MR_GUARDED_BY(mutex_);
};

Result<std::unique_ptr<Client>> Client::make(ClientOptions options) {
  auto tls = MR_TRY(TlsContext::make(options.verify, options.ca_file));
  return std::unique_ptr<Client>(new Client(std::move(options), std::move(tls)));
}

Client::Client(ClientOptions options, std::unique_ptr<TlsContext> tls)
    : options_(std::move(options)), tls_(std::move(tls)), pool_(std::make_unique<Pool>(options_)) {}

Client::~Client() = default;

uint64_t body_size(const RequestBody& body) {
  if (const auto* bytes = std::get_if<std::string_view>(&body)) return bytes->size();
  if (const auto* range = std::get_if<FileRange>(&body)) return range->size;
  return std::get<GeneratedBody>(body).size;
}

std::string host_header(const Url& url) {
  const std::string host = url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
  const bool usual = url.port == 0 || url.port == (url.scheme == "https" ? 443 : 80);
  return usual ? host : fmt::format("{}:{}", host, url.port);
}

Result<std::string> Client::head_text(const Request& request,
                                      const std::optional<Credentials>& credentials) const {
  MR_TRY(parse_query(request.url.query));
  SignedRequest wire{request.method, request.url.path, request.url.query, {}};
  wire.headers.emplace_back("host", host_header(request.url));
  for (const HeaderField& header : request.headers) wire.headers.push_back(header);
  wire.headers.emplace_back("user-agent", options_.user_agent);
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

namespace {

Status send_generated(Wire& wire, std::string_view head, const GeneratedBody& body) {
  std::vector<std::byte> buffer(std::min<uint64_t>(body.size, kReadBytes));
  MR_TRY(wire.write_all(head, {}));
  for (uint64_t offset = 0; offset < body.size;) {
    const size_t most = std::min<uint64_t>(buffer.size(), body.size - offset);
    const size_t got = MR_TRY(body.read(offset, std::span(buffer).first(most)));
    if (got == 0) return make_error(Code::kTruncated, "the body ends at byte {} of {}", offset, body.size);
    MR_TRY(wire.write_all({reinterpret_cast<const char*>(buffer.data()), got}, {}));
    offset += got;
  }
  return {};
}

Status send_request(Wire& wire, std::string_view head, const RequestBody& body) {
  if (const auto* bytes = std::get_if<std::string_view>(&body)) return wire.write_all(head, *bytes);
  if (const auto* range = std::get_if<FileRange>(&body)) {
    MR_TRY(wire.write_all(head, {}));
    return wire.send_file(*range->file, range->offset, range->size);
  }
  return send_generated(wire, head, std::get<GeneratedBody>(body));
}

}  // namespace

Result<Response> Client::send_once(const Request& request, const std::optional<Credentials>& credentials) {
  const std::string head = MR_TRY(head_text(request, credentials));
  const std::string place = place_of(request.url);
  for (bool fresh = false;; fresh = true) {
    auto lease = MR_TRY(pool_->take(place));
    // Counts as in use until the response is done with, whichever way that happens.
    const std::shared_ptr<void> slot(nullptr, [pool = pool_.get(), place](void*) { pool->release(place); });
    const bool reused = lease.wire != nullptr;
    if (!reused) {
      const TlsContext* tls = request.url.scheme == "https" ? tls_.get() : nullptr;
      lease.wire = MR_TRY(
          Wire::open(request.url.host, port_of(request.url), tls, {options_.timeouts, options_.lifeline}));
    }
    auto sent = send_request(*lease.wire, head, request.body);
    if (!sent && sent.error().code() != Code::kUnavailable) return sent.take_error();
    // A server that refuses a body may answer before it has read it all: the answer says more than our
    // failure.
    const Response::GiveBack give_back = [pool = pool_.get(), place, slot,
                                          whole = sent.has_value()](std::unique_ptr<Wire> wire) {
      if (whole) pool->keep(place, std::move(wire));
    };
    auto response = Response::receive(std::move(lease.wire), request.method, give_back);
    if (response) return response;
    // The server may have closed a kept connection just as we used it: that is no failure of the server.
    if (reused && !fresh && may_repeat(request) && response.error().code() == Code::kUnavailable) continue;
    return sent ? response.take_error() : sent.take_error();
  }
}

Status Client::pause(int64_t ms) const {
  if (options_.lifeline) return options_.lifeline->pause(ms);
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return {};
}

Result<Response> Client::send_with_retries(const Request& request,
                                           const std::optional<Credentials>& credentials) {
  const std::string place = place_of(request.url);
  const uint64_t patient_until_us = steady_us() + static_cast<uint64_t>(options_.patience_ms) * 1000;
  for (int attempt = 0;; ++attempt) {
    auto response = send_once(request, credentials);
    const bool away = is_away(response);
    if (response && !away) pool_->note_answer(place);
    const bool waited_for = away && steady_us() < patient_until_us && pool_->has_answered(place);
    const bool last = !may_repeat(request) || (attempt + 1 >= options_.most_attempts && !waited_for);
    if (response && (last || !may_pass(response->status()))) return response;
    if (!response && (last || response.error().code() != Code::kUnavailable)) return response;
    const int64_t wait_ms = pause_before(attempt, response ? &*response : nullptr);
    if (response) response->finish();
    MR_TRY(pause(wait_ms));
  }
}

namespace {

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 307 || status == 308;
}

Result<Url> resolve(const Url& from, const std::string& location) {
  if (location.starts_with('/') && !location.starts_with("//")) {
    Url base = from;
    base.path = "/";
    base.query.clear();
    std::string text = base.text();
    text.pop_back();
    return parse_url(text + location);
  }
  Url to = MR_TRY(parse_url(location));
  if (to.scheme != "http" && to.scheme != "https")
    return make_error(Code::kDenied, "redirected to {}", printable(location));
  if (from.scheme == "https" && to.scheme == "http")
    return make_error(Code::kDenied, "redirected from https to {}", printable(location));
  return to;
}

}  // namespace

Result<Response> Client::send(const Request& request) {
  Request current = request;
  std::optional<Credentials> credentials = options_.credentials;
  const auto within = [&] { return fmt::format("{} {}", request.method, request.url.text()); };
  if (current.url.scheme != "http" && current.url.scheme != "https")
    return make_error(Code::kInvalid, "{} is not an http address", request.url.text());
  for (int redirects = 0;; ++redirects) {
    auto response = send_with_retries(current, credentials);
    if (!response) return std::move(response).within(within());
    const std::string* location = response->find_header("location");
    if (!is_redirect(response->status()) || location == nullptr) return response;
    if (redirects == kMaxRedirects)
      return make_error(Code::kUnavailable, "{}: redirected more than {} times", within(), kMaxRedirects);
    Url next = MR_TRY(resolve(current.url, *location).within(within()));
    // A signature is for one host; another one must not even see who would have signed.
    if (place_of(next) != place_of(current.url)) credentials.reset();
    response->finish();
    current.url = std::move(next);
  }
}

Result<Response> Client::call(const Request& request) {
  Response response = MR_TRY(send(request));
  if (response.is_success()) return response;
  return answer_error(request, response);
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

Error answer_error(const Request& request, Response& response) {
  const int status = response.status();
  auto body = response.read_all(kMaxErrorBody);
  const std::string_view text = body ? std::string_view(*body) : std::string_view();
  const std::string code = find_xml_text(text, "Code");
  const std::string message = find_xml_text(text, "Message");
  // Some servers begin the message with the code.
  std::string said = code.empty() || message.starts_with(code) ? "" : fmt::format(": {}", code);
  if (!message.empty()) said += fmt::format(": {}", message);
  if (said.empty() && status == 404) said = ": not found";
  Error error = make_error(code_of(status), "{} {}: the server answered {}{}", request.method,
                           request.url.text(), status, printable(said, 500));
  if (status == 401 || status == 403) {
    return std::move(error).with_hint(
        "check the access key, the secret key and the clock; are the keys allowed to do this?");
  }
  if (status == 507) return std::move(error).with_hint("free some space, or add a drive");
  return error;
}

}  // namespace millrace::net
