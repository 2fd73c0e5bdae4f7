// Calls etcd's JSON gateway, one endpoint after the other.
#include "cluster/etcd_caller.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "cluster/etcd_answers.h"
#include "cluster/registry.h"

namespace millrace::cluster {

namespace {

constexpr std::string_view kPlain = "etcd://";
constexpr std::string_view kSecure = "etcds://";
constexpr uint64_t kMostAnswerBytes = 256 << 20;
constexpr size_t kFewestAttempts = 2;
constexpr std::string_view kForm = "etcd://[user:password@]host:2379[,host:2379...][/prefix]";

Error bad_address(std::string_view why) {
  // Never the text itself: it may hold a password.
  return make_error(Code::kInvalid, "the address of etcd: {}", why)
      .with_hint(fmt::format("it has the form {}, or etcds:// for TLS", kForm));
}

Result<std::string> decode_part(std::string_view text) {
  auto decoded = net::percent_decode(text);
  if (!decoded || !is_utf8(*decoded)) return bad_address("user and password must be percent-encoded UTF-8");
  return decoded;
}

Status take_user(std::string_view& rest, EtcdAddress& address) {
  const size_t at = rest.rfind('@', rest.find('/'));
  if (at == std::string_view::npos) return {};
  const std::string_view who = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  const size_t colon = who.find(':');
  if (colon == std::string_view::npos || colon == 0) return bad_address("a user needs a password");
  address.user = MR_TRY(decode_part(who.substr(0, colon)));
  address.password = MR_TRY(decode_part(who.substr(colon + 1)));
  return {};
}

}  // namespace

bool is_etcd_address(std::string_view text) {
  return text.starts_with(kPlain) || text.starts_with(kSecure);
}

Result<EtcdAddress> parse_etcd_address(std::string_view text) {
  if (!is_etcd_address(text)) return bad_address("it must begin with etcd:// or etcds://");
  const bool secure = text.starts_with(kSecure);
  text.remove_prefix(secure ? kSecure.size() : kPlain.size());
  EtcdAddress address;
  MR_TRY(take_user(text, address));
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string_view prefix = trim(text.substr(slash), "/");
  address.prefix = fmt::format("{}/", prefix.empty() ? "millrace" : prefix);
  if (!check_prefix(address.prefix)) return bad_address("its prefix has letters that no name may have");
  std::string_view hosts = text.substr(0, slash);
  while (true) {
    const size_t comma = std::min(hosts.find(','), hosts.size());
    const std::string_view host = hosts.substr(0, comma);
    auto url = net::parse_url(fmt::format("{}://{}/", secure ? "https" : "http", host));
    if (!url || host.empty()) return bad_address(fmt::format("{} is no host", printable(host, 80)));
    if (url->port == 0) url->port = 2379;
    address.endpoints.push_back(url.take());
    if (address.endpoints.size() > kMostEtcdEndpoints) return bad_address("it has too many hosts");
    if (comma == hosts.size()) return address;
    hosts.remove_prefix(comma + 1);
  }
}

Result<std::unique_ptr<EtcdCaller>> EtcdCaller::make(EtcdAddress address, const net::ClientOptions& options) {
  std::unique_ptr<net::Client> client = MR_TRY(net::Client::make(options));
  return std::unique_ptr<EtcdCaller>(new EtcdCaller(std::move(address), std::move(client)));
}

size_t EtcdCaller::current() const {
  const MutexLock lock(mutex_);
  return current_;
}

void EtcdCaller::move_on() {
  move_on_from(current());
}

void EtcdCaller::move_on_from(size_t endpoint) {
  const MutexLock lock(mutex_);
  // Another thread may have moved on already.
  if (current_ == endpoint) current_ = (endpoint + 1) % address_.endpoints.size();
}

void EtcdCaller::forget_token() {
  const MutexLock lock(mutex_);
  token_.clear();
}

Result<std::string> EtcdCaller::get_token(size_t endpoint) {
  if (address_.user.empty()) return std::string();
  {
    const MutexLock lock(mutex_);
    if (!token_.empty()) return token_;
  }
  const nlohmann::json asked = {{"name", address_.user}, {"password", address_.password}};
  const std::string body = asked.dump();
  net::Request request;
  request.method = "POST";
  request.url = address_.endpoints[endpoint];
  request.url.path = "/v3/auth/authenticate";
  request.body = std::string_view(body);
  request.repeat = net::Repeat::kSafe;
  net::Response response = MR_TRY(client_->send(request));
  const std::string answer = MR_TRY(response.read_all(kMostAnswerBytes));
  if (response.status() != 200) return parse_failure(response.status(), answer).within("logging in");
  std::string token = MR_TRY(parse_token(answer));
  const MutexLock lock(mutex_);
  token_ = token;
  return token;
}

Result<net::Response> EtcdCaller::post_once(size_t endpoint, const std::string& path,
                                            const std::string& body) {
  const std::string token = MR_TRY(get_token(endpoint));
  net::Request request;
  request.method = "POST";
  request.url = address_.endpoints[endpoint];
  request.url.path = path;
  // A member that is cut off from the others ends its streams instead of keeping silent.
  request.headers = {{"content-type", "application/json"}, {"grpc-metadata-hasleader", "true"}};
  if (!token.empty()) request.headers.emplace_back("authorization", token);
  request.body = std::string_view(body);
  request.repeat = net::Repeat::kNever;
  net::Response response = MR_TRY(client_->send(request));
  if (response.status() == 200) return response;
  const std::string answer = MR_TRY(response.read_all(net::kMaxErrorBody));
  return parse_failure(response.status(), answer);
}

Result<net::Response> EtcdCaller::post(size_t endpoint, const std::string& path, const std::string& body) {
  auto response = post_once(endpoint, path, body);
  if (response || !response.error().is(kTokenRefused)) return response;
  forget_token();
  return post_once(endpoint, path, body);
}

Result<EtcdCaller::Answer> EtcdCaller::call(const std::string& path, const std::string& body) {
  const size_t attempts = std::max(address_.endpoints.size(), kFewestAttempts);
  std::optional<Error> failure;
  for (size_t attempt = 0; attempt < attempts; ++attempt) {
    const size_t endpoint = current();
    auto response = post(endpoint, path, body);
    auto answer =
        response ? response->read_all(kMostAnswerBytes) : Result<std::string>(response.take_error());
    if (answer) return Answer{answer.take(), attempt > 0};
    const Code code = answer.error().code();
    failure = answer.take_error().within(
        fmt::format("etcd at {}:{}", address_.endpoints[endpoint].host, address_.endpoints[endpoint].port));
    // A body that ends early is a member that died while it answered.
    if (code != Code::kUnavailable && code != Code::kTruncated) return std::move(*failure);
    move_on_from(endpoint);
  }
  if (failure->code() == Code::kUnavailable) return std::move(*failure);
  return make_error(Code::kUnavailable, "{}", failure->message());
}

Result<net::Response> EtcdCaller::open_stream(const std::string& path, const std::string& body) {
  return post(current(), path, body);
}

}  // namespace millrace::cluster
