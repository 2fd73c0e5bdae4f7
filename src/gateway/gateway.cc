// From a request to its operation: host and path, signature, rights, the table.
#include "gateway/gateway.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/text.h"
#include "gateway/buckets.h"
#include "gateway/s3_operations.h"
#include "gateway/s3_support.h"

namespace millrace::gateway {

namespace {

constexpr std::string_view kPeerPath = "/-/peer";
// Of workers of jobs (jobs/plan.h).
constexpr std::string_view kJobAgent = "millrace-job";

// A page in a browser on this machine can send requests here. What it sends says where the page came from.
bool from_page(const net::RequestHead& request) {
  return request.find("origin") || request.find("sec-fetch-site");
}

net::SignedRequest signed_request(const Call& call) {
  const net::RequestHead& request = call.request();
  net::SignedRequest copy;
  if (call.in_host) copy.host_bucket = call.bucket;
  copy.method = request.method;
  copy.path = request.path;
  copy.query = request.query;
  for (const net::HeaderView& header : request.headers)
    copy.headers.emplace_back(lower_case(header.name), header.value);
  return copy;
}

Result<const Key*> find_key(const KeyRing& ring, const std::string& access_key) {
  const Key* key = ring.find(access_key);
  if (key != nullptr) return key;
  return make_error(kInvalidAccessKeyId, "there is no access key {}", printable(access_key, 64));
}

Status check_signature(net::SignatureProblem problem, std::string_view date) {
  switch (problem) {
    case net::SignatureProblem::kNone:
      return {};
    case net::SignatureProblem::kMalformed:
      return make_error(kAccessDenied, "the signature cannot be read");
    case net::SignatureProblem::kSkewed:
      return make_error(kRequestTimeTooSkewed, "the request is signed for {}, here it is {}",
                        printable(date, 32), format_iso_date(wall_ms()))
          .with_hint("the clocks may differ by 15 minutes");
    case net::SignatureProblem::kExpired:
      return make_error(kAccessDenied, "Request has expired");
    case net::SignatureProblem::kMismatch:
      break;
  }
  return make_error(kSignatureDoesNotMatch, "the signature is not what this key and request give");
}

}  // namespace

Gateway::Gateway(Services services, KeySource& keys, Administration& administration, GatewayOptions options)
    : services_(services),
      keys_(keys),
      administration_(administration),
      options_(std::move(options)),
      hosts_(options_.domains) {}

net::Task<Status> Gateway::handle(net::Connection& connection) {
  Call call(services_, connection);
  Status done;
  auto located = locate(call);
  if (!located) {
    done = co_await call.refuse(located.error());
  } else {
    done = co_await dispatch(call);
  }
  const uint64_t took = steady_us() - connection.began_us();
  if (!call.administrative && connection.request().find("user-agent") != kJobAgent) meters_.count_client();
  meters_.count(call.operation,
                {connection.bytes_received(), connection.bytes_sent(), took, connection.response_status()});
  if (options_.access_log) log_access(call, took);
  if (services_.audit != nullptr) note_audit(call, done, took);
  co_return done;
}

bool Gateway::outlasts_drain(const net::RequestHead& request) const {
  return request.path == kPeerPath;
}

void Gateway::note_audit(const Call& call, const Status& done, uint64_t microseconds) const {
  if (!is_audited(call)) return;
  for (auto& what : describe(call, done ? Answered::kWhole : Answered::kCut, microseconds))
    services_.audit->note(std::move(what));
}

void Gateway::log_access(const Call& call, uint64_t microseconds) const {
  const net::Connection& connection = call.connection;
  services_.log.info("access", "peer", connection.peer(), "key",
                     call.caller.key != nullptr ? call.caller.key->access_key : "-", "method", call.method(),
                     "path", printable(call.request().path, 1100), "operation", row_of(call.operation).meter,
                     "status", connection.response_status(), "in", connection.bytes_received(), "out",
                     connection.bytes_sent(), "us", microseconds);
}

// A page whose own name was made to point to this machine is of one origin with it. Its name gives it away:
// whoever means this machine says localhost, an address or a configured domain.
Status Gateway::check_host(const Call& call, const HostName& host) const {
  const net::RequestHead& request = call.request();
  if (host.is_known()) return {};
  const bool is_open_here = options_.loopback && is_open(*keys_.current());
  if (is_open_here && from_page(request)) {
    return make_error(kAccessDenied, "web pages of other hosts have no access here")
        .with_hint("use localhost or 127.0.0.1");
  }
  if (host.kind == HostName::Kind::kShort || !may_mean_a_bucket_of_the_host(call)) return {};
  const std::string name = printable(request.host.substr(0, request.host.find(':')), 200);
  return make_error(kInvalidRequest,
                    "this node does not know the host {}: the bucket could be in it or in the path", name)
      .with_hint(fmt::format("start the node with --set domains={}, or use its address", name));
}

bool Gateway::may_mean_a_bucket_of_the_host(const Call& call) const {
  const net::RequestHead& request = call.request();
  const bool reads = request.method == "GET" || request.method == "HEAD";
  // Whoever watches over the node may call it as he likes. So may other nodes, which call it as the map does.
  if (call.administrative && (reads || request.path == kPeerPath)) return false;
  const std::string host = lower_case(request.host.substr(0, request.host.find(':')));
  for (size_t dot = host.find('.'); dot != std::string::npos; dot = host.find('.', dot + 1)) {
    if (call.services.objects.find_bucket(host.substr(0, dot)) != nullptr) return true;
  }
  // No bucket is called so: reading as the path says shows nothing else, and what is there already was not
  // meant to be made in a bucket of the host.
  return !reads && !call.administrative && call.services.objects.find_bucket(call.bucket) == nullptr;
}

Status Gateway::locate(Call& call) const {
  const net::RequestHead& request = call.request();
  if (!request.query.empty()) call.query = MR_TRY(net::parse_query(request.query));
  const HostName host = hosts_.find(request.host);
  call.in_host = host.kind == HostName::Kind::kBucket;
  call.administrative = !call.in_host && (request.path.starts_with("/-/") || request.path == "/-");
  if (call.administrative) return check_host(call, host);
  std::string path;
  if (request.path.find('%') == std::string_view::npos) {
    path = request.path;
  } else {
    auto decoded = net::percent_decode(request.path);
    if (!decoded) return make_error(kInvalidURI, "{}", decoded.error().message());
    path = decoded.take();
  }
  if (path.empty() || path[0] != '/') return make_error(kInvalidURI, "the path does not start with /");
  if (call.in_host) {
    call.bucket = host.bucket;
    call.key = path.substr(1);
  } else {
    const size_t slash = path.find('/', 1);
    call.bucket = path.substr(1, slash == std::string::npos ? std::string::npos : slash - 1);
    if (slash != std::string::npos) call.key = path.substr(slash + 1);
    if (slash == 1) {
      return make_error(kInvalidURI, "the path begins with // and names no bucket")
          .with_hint("the address before the path ends with a slash too many");
    }
  }
  MR_TRY(check_host(call, host));
  if (call.key.size() > store::kMaxKeyBytes)
    return make_error(kKeyTooLong, "keys have at most {} bytes", store::kMaxKeyBytes);
  if (!call.key.empty()) MR_TRY(store::check_key(call.key));
  return {};
}

Result<Caller> Gateway::authenticate(const Call& call) const {
  Caller caller;
  caller.ring = keys_.current();
  caller.open = is_open(*caller.ring);
  // Unmodified S3 clients always sign; in open mode nobody could tell a right signature from a wrong one.
  if (caller.open || !looks_signed(call.request())) return caller;
  const net::SignedRequest request = signed_request(call);
  if (const auto link = net::find_old_link(request)) {
    caller.key = MR_TRY(find_key(*caller.ring, link->access_key));
    MR_TRY(check_signature(net::judge_old_link(request, *link, caller.key->secret_key, wall_ms()), ""));
    return caller;
  }
  auto read = net::read_claim(request);
  if (!read) {
    return make_error(kAccessDenied, "{}", read.error().message())
        .with_hint(std::string(read.error().hint()));
  }
  caller.claim = read.take();
  if (!caller.claim) return caller;
  caller.key = MR_TRY(find_key(*caller.ring, caller.claim->access_key));
  MR_TRY(check_signature(net::judge(request, *caller.claim, caller.key->secret_key, wall_ms()),
                         caller.claim->date));
  return caller;
}

Status Gateway::authorize(const Call& call, Right right) const {
  if (call.caller.open) {
    if (right != Right::kRead && from_foreign_page(call.request())) {
      return make_error(kAccessDenied, "web pages of other origins may not write here");
    }
    return {};
  }
  if (call.bucket.empty()) {
    if (call.caller.key != nullptr) return {};
    return make_error(kAccessDenied, "listing the buckets needs a key");
  }
  if (call.caller.may(right, call.bucket)) return {};
  if (right == Right::kRead) {
    const auto bucket = services_.objects.find_bucket(call.bucket);
    if (bucket && bucket->settings.anonymous_read) return {};
  }
  return make_error(kAccessDenied, "{} bucket {}",
                    right == Right::kRead ? "no right to read" : "no right to write to", call.bucket)
      .with_hint("millrace keys create makes keys with rights");
}

net::Task<Status> Gateway::dispatch(Call& call) {
  auto caller = authenticate(call);
  if (!caller) {
    call.operation = Operation::kRefused;
    co_return co_await call.refuse(caller.error());
  }
  call.caller = caller.take();
  if (call.administrative) {
    call.operation = Operation::kAdministration;
    co_return co_await administration_.serve(call);
  }
  const Scope scope = call.bucket.empty() ? Scope::kService
                      : call.key.empty()  ? Scope::kBucket
                                          : Scope::kObject;
  const Operation operation = resolve(scope, call.request(), call.query);
  auto allowed = authorize(call, row_of(operation).right);
  if (allowed) allowed = check_supported(operation, call.request(), call.query);
  if (!allowed) {
    call.operation = Operation::kRefused;
    co_return co_await call.refuse(allowed.error());
  }
  if (operation == Operation::kNone) {
    Refusal refusal{&kMethodNotAllowed, fmt::format("{} is not possible here", printable(call.method(), 16)),
                    "", scope == Scope::kService ? "GET, HEAD" : "GET, HEAD, PUT, POST, DELETE"};
    co_return co_await call.refuse(std::move(refusal));
  }
  call.operation = operation;
  auto there = co_await provide_bucket(call);
  if (!there) co_return co_await call.refuse(there.error());
  co_return co_await row_of(operation).serve(call);
}

// In open mode on loopback `curl -T` needs no ceremony: the first object makes the bucket, whether it comes
// whole, in parts or as a copy.
net::Task<Status> Gateway::provide_bucket(Call& call) {
  store::Objects& objects = services_.objects;
  if (call.bucket.empty() || call.operation == Operation::kCreateBucket || objects.find_bucket(call.bucket))
    co_return Status();
  const bool makes_object = call.operation == Operation::kPutObject ||
                            call.operation == Operation::kCopyObject ||
                            call.operation == Operation::kCreateUpload;
  const bool plain = call.caller.open && options_.loopback && !looks_signed(call.request());
  if (!makes_object || !plain)
    co_return store::no_such_bucket(printable(call.bucket, 80)).with_hint("millrace mb makes one");
  auto good = check_new_bucket(call.bucket, services_.names);
  if (!good) co_return good;
  std::function<void(store::Done<void>)> create = [&call](store::Done<void> done) {
    call.objects().create_bucket(call.bucket, {}, std::move(done));
  };
  auto created = co_await call.ask<void>(std::move(create));
  if (!created && created.error().is(store::kBucketExists)) co_return Status();
  co_return created;
}

}  // namespace millrace::gateway
