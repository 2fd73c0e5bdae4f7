// Who asks for what.
#include "cluster/gateway.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/text.h"
#include "cluster/buckets.h"
#include "cluster/multipart.h"
#include "cluster/operation.h"
#include "cluster/read.h"
#include "cluster/write.h"
#include "cluster/xml.h"

namespace millrace::cluster {

namespace {

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

// Clients ask who may do what before they copy; rights belong to keys here, so there is one answer.
constexpr std::string_view kAcl =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Owner><ID>millrace</ID></Owner>"
    "<AccessControlList><Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
    "xsi:type=\"CanonicalUser\"><ID>millrace</ID></Grantee><Permission>FULL_CONTROL</Permission></Grant>"
    "</AccessControlList></AccessControlPolicy>\n";

Result<const Key*> find_key(const KeyRing& ring, const std::string& access_key) {
  const Key* key = ring.find(access_key);
  if (key != nullptr) return key;
  return make_error(Code::kDenied, "InvalidAccessKeyId: there is no access key {}",
                    printable(access_key, 64));
}

Status check_signature(net::SignatureProblem problem, std::string_view date) {
  switch (problem) {
    case net::SignatureProblem::kNone:
      return {};
    case net::SignatureProblem::kMalformed:
      return make_error(Code::kDenied, "AccessDenied: the signature cannot be read");
    case net::SignatureProblem::kSkewed:
      return make_error(Code::kDenied, "RequestTimeTooSkewed: the request is signed for {}, here it is {}",
                        printable(date, 32), format_iso_date(wall_ms()))
          .with_hint("the clocks may differ by 15 minutes");
    case net::SignatureProblem::kExpired:
      return make_error(Code::kDenied, "AccessDenied: Request has expired");
    case net::SignatureProblem::kMismatch:
      break;
  }
  return make_error(Code::kDenied,
                    "SignatureDoesNotMatch: the signature is not what this key and request give");
}

}  // namespace

Gateway::Gateway(Services services, KeyFile& keys, GatewayOptions options)
    : services_(services),
      keys_(keys),
      options_(std::move(options)),
      hosts_(options_.domains),
      indexes_(services.store),
      started_us_(steady_us()) {}

net::Task<Status> Gateway::handle(net::Connection& connection) {
  Call call(services_, connection);
  Status done;
  auto located = locate(call);
  if (!located) {
    done = co_await call.refuse(located.error(), About::kObject);
  } else {
    done = co_await dispatch(call);
  }
  const uint64_t took = steady_us() - connection.began_us();
  meters_.count(call.operation, connection.bytes_received(), connection.bytes_sent(), took,
                connection.response_status());
  if (options_.access_log) log_access(call, took);
  co_return done;
}

void Gateway::log_access(const Call& call, uint64_t microseconds) const {
  const net::Connection& connection = call.connection;
  services_.log.info("access", "peer", connection.peer(), "key",
                     call.caller.key != nullptr ? call.caller.key->access_key : "-", "method", call.method(),
                     "path", printable(call.request().path, 1100), "operation", call.operation, "status",
                     connection.response_status(), "in", connection.bytes_received(), "out",
                     connection.bytes_sent(), "us", microseconds);
}

// A page whose own name was made to point to this machine is of one origin with it. Its name gives it away:
// whoever means this machine says localhost, an address or a configured domain.
Status Gateway::check_host(const Call& call, const HostName& host) const {
  const net::RequestHead& request = call.request();
  if (host.is_known()) return {};
  const bool is_open_here = options_.loopback && is_open(*keys_.current());
  if (is_open_here && from_page(request)) {
    return make_error(Code::kDenied, "AccessDenied: web pages of other hosts have no access here")
        .with_hint("use localhost or 127.0.0.1");
  }
  if (host.kind == HostName::Kind::kShort || !may_mean_a_bucket_of_the_host(call)) return {};
  const std::string name = printable(request.host.substr(0, request.host.find(':')), 200);
  return make_error(
             Code::kInvalid,
             "InvalidRequest: this node does not know the host {}: the bucket could be in it or in the path",
             name)
      .with_hint(fmt::format("start the node with --set domains={}, or use its address", name));
}

bool Gateway::may_mean_a_bucket_of_the_host(const Call& call) const {
  const net::RequestHead& request = call.request();
  const bool reads = request.method == "GET" || request.method == "HEAD";
  // Whoever watches over the node may call it as he likes.
  if (call.administrative && reads) return false;
  const std::string host = lower_case(request.host.substr(0, request.host.find(':')));
  for (size_t dot = host.find('.'); dot != std::string::npos; dot = host.find('.', dot + 1)) {
    if (call.services.store.find_bucket(host.substr(0, dot)) != nullptr) return true;
  }
  // No bucket is called so: reading as the path says shows nothing else, and what is there already was not meant to
  // be made in a bucket of the host.
  return !reads && !call.administrative && call.services.store.find_bucket(call.bucket) == nullptr;
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
    if (!decoded) return make_error(Code::kInvalid, "InvalidURI: {}", decoded.error().message());
    path = decoded.take();
  }
  if (path.empty() || path[0] != '/')
    return make_error(Code::kInvalid, "InvalidURI: the path does not start with /");
  if (call.in_host) {
    call.bucket = host.bucket;
    call.key = path.substr(1);
  } else {
    const size_t slash = path.find('/', 1);
    call.bucket = path.substr(1, slash == std::string::npos ? std::string::npos : slash - 1);
    if (slash != std::string::npos) call.key = path.substr(slash + 1);
    if (slash == 1) {
      return make_error(Code::kInvalid, "InvalidURI: the path begins with // and names no bucket")
          .with_hint("the address before the path ends with a slash too many");
    }
  }
  MR_TRY(check_host(call, host));
  if (call.key.size() > store::kMaxKeyBytes)
    return make_error(Code::kInvalid, "KeyTooLongError: keys have at most {} bytes", store::kMaxKeyBytes);
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
    return make_error(Code::kDenied, "AccessDenied: {}", read.error().message())
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
      return make_error(Code::kDenied, "AccessDenied: web pages of other origins may not write here");
    }
    return {};
  }
  if (call.bucket.empty()) {
    if (call.caller.key != nullptr) return {};
    return make_error(Code::kDenied, "AccessDenied: listing the buckets needs a key");
  }
  if (call.caller.may(right, call.bucket)) return {};
  if (right == Right::kRead) {
    const auto bucket = services_.store.find_bucket(call.bucket);
    if (bucket && bucket->settings.anonymous_read) return {};
  }
  return make_error(Code::kDenied, "AccessDenied: {} bucket {}",
                    right == Right::kRead ? "no right to read" : "no right to write to", call.bucket)
      .with_hint("millrace keys create makes keys with rights");
}

net::Task<Status> Gateway::dispatch(Call& call) {
  auto caller = authenticate(call);
  if (!caller) {
    call.operation = "refused";
    co_return co_await call.refuse(caller.error(), About::kObject);
  }
  call.caller = caller.take();
  if (call.administrative) {
    call.operation = "administration";
    NodeView view{services_, *server_, meters_, started_us_};
    co_return co_await administer(call, view);
  }
  const Scope scope = call.bucket.empty() ? Scope::kService
                      : call.key.empty()  ? Scope::kBucket
                                          : Scope::kObject;
  const Asked asked = resolve(scope, call.request(), call.query);
  auto allowed = authorize(call, asked.right);
  if (allowed) allowed = check_supported(asked.operation, call.request(), call.query);
  if (!allowed) {
    call.operation = "refused";
    co_return co_await call.refuse(allowed.error(), About::kObject);
  }
  if (asked.operation == Operation::kNone) {
    Refusal refusal{"MethodNotAllowed", fmt::format("{} is not possible here", printable(call.method(), 16)),
                    "", scope == Scope::kService ? "GET, HEAD" : "GET, HEAD, PUT, POST, DELETE"};
    co_return co_await call.refuse(std::move(refusal));
  }
  if (scope == Scope::kService) co_return co_await list_buckets(call);
  if (scope == Scope::kBucket) co_return co_await serve_bucket(call, asked.operation);
  co_return co_await serve_object(call, asked.operation);
}

net::Task<Status> Gateway::serve_bucket(Call& call, Operation operation) {
  if (operation == Operation::kCreateBucket) co_return co_await create_bucket(call, options_.names);
  if (!services_.store.find_bucket(call.bucket)) {
    Refusal refusal{"NoSuchBucket", fmt::format("there is no bucket {}", printable(call.bucket, 80)),
                    "millrace mb makes one"};
    co_return co_await call.refuse(std::move(refusal));
  }
  switch (operation) {
    case Operation::kDeleteObjects:
      co_return co_await delete_objects(call);
    case Operation::kGetBatch:
      co_return co_await get_batch(call, indexes_);
    case Operation::kListUploads:
      co_return co_await list_uploads(call);
    case Operation::kHeadBucket:
      co_return co_await head_bucket(call);
    case Operation::kListObjects:
      co_return co_await list_objects(call);
    case Operation::kListVersions:
      co_return co_await list_versions(call);
    case Operation::kDeleteBucket:
      co_return co_await delete_bucket(call);
    default:
      co_return co_await describe_bucket(call, operation);
  }
}

net::Task<Status> Gateway::describe_bucket(Call& call, Operation operation) {
  call.operation = "bucket_config";
  if (operation == Operation::kGetPolicy) {
    Refusal refusal{"NoSuchBucketPolicy", "rights belong to keys here", "millrace keys list"};
    co_return co_await call.refuse(std::move(refusal));
  }
  if (operation == Operation::kGetBucketTags) {
    Refusal refusal{"NoSuchTagSet", "buckets have no tags", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  if (operation == Operation::kGetAcl) co_return co_await call.send_xml(200, std::string(kAcl));
  XmlWriter xml(operation == Operation::kGetLocation ? "LocationConstraint" : "VersioningConfiguration");
  co_return co_await call.send_xml(200, xml.finish());
}

// In open mode on loopback `curl -T` needs no ceremony: the first object makes the bucket, whether it comes
// whole, in parts or as a copy.
net::Task<Status> Gateway::create_on_first_use(Call& call) {
  store::Store& store = services_.store;
  auto work = [&store, name = call.bucket, rule = options_.names]() -> Status {
    MR_TRY(check_new_bucket(name, rule));
    auto created = store.create_bucket(name, {});
    if (!created && created.error().code() == Code::kExists) return {};
    return created;
  };
  co_return co_await call.blocking(std::move(work));
}

net::Task<Status> Gateway::serve_object(Call& call, Operation operation) {
  if (!services_.store.find_bucket(call.bucket)) {
    const bool plain = call.caller.open && options_.loopback && !looks_signed(call.request());
    const bool makes_object = operation == Operation::kPutObject || operation == Operation::kCopyObject ||
                              operation == Operation::kCreateUpload;
    if (!makes_object || !plain) {
      Refusal refusal{"NoSuchBucket", fmt::format("there is no bucket {}", printable(call.bucket, 80)),
                      "millrace mb makes one"};
      co_return co_await call.refuse(std::move(refusal));
    }
    auto created = co_await create_on_first_use(call);
    if (!created) co_return co_await call.refuse(created.error(), About::kBucket);
  }
  switch (operation) {
    case Operation::kGetObject:
      co_return co_await get_object(call);
    case Operation::kPutObject:
      co_return co_await put_object(call);
    case Operation::kCopyObject:
      co_return co_await copy_object(call);
    case Operation::kDeleteObject:
      co_return co_await delete_object(call);
    case Operation::kGetTags:
      co_return co_await get_tags(call);
    case Operation::kPutTags:
      co_return co_await put_tags(call);
    case Operation::kDeleteTags:
      co_return co_await delete_tags(call);
    case Operation::kGetAcl:
      call.operation = "bucket_config";
      co_return co_await call.send_xml(200, std::string(kAcl));
    case Operation::kGetIndex:
      co_return co_await get_index(call);
    case Operation::kGetMember:
      co_return co_await get_member(call, indexes_);
    case Operation::kGetSamples:
      co_return co_await get_samples(call, indexes_);
    default:
      co_return co_await serve_upload(call, operation);
  }
}

net::Task<Status> Gateway::serve_upload(Call& call, Operation operation) {
  switch (operation) {
    case Operation::kCreateUpload:
      co_return co_await create_upload(call);
    case Operation::kPutPart:
      co_return co_await put_part(call);
    case Operation::kCopyPart:
      co_return co_await copy_part(call);
    case Operation::kCompleteUpload:
      co_return co_await complete_upload(call);
    case Operation::kListParts:
      co_return co_await list_parts(call);
    default:
      MR_ASSERT(operation == Operation::kAbortUpload);
      co_return co_await abort_upload(call);
  }
}

}  // namespace millrace::cluster
