// Reads etcd's JSON.
#include "cluster/etcd_answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/number.h"
#include "base/text.h"
#include "net/digest.h"

namespace millrace::cluster {

namespace {

using Json = nlohmann::json;

// gRPC's codes, as the gateway passes them on.
enum Grpc : int64_t {
  kGrpcInvalidArgument = 3,
  kGrpcNotFound = 5,
  kGrpcPermissionDenied = 7,
  kGrpcResourceExhausted = 8,
  kGrpcFailedPrecondition = 9,
  kGrpcOutOfRange = 11,
  kGrpcUnimplemented = 12,
  kGrpcUnauthenticated = 16,
};

Error not_etcd(std::string_view why) {
  return make_error(Code::kCorrupt, "the answer is not etcd's: {}", why);
}

const Json* find(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// 0 where it is left out; nothing where it is no number.
std::optional<uint64_t> find_number(const Json& object, const char* name) {
  const Json* value = find(object, name);
  if (value == nullptr) return 0;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  if (value->is_string()) return parse_number<uint64_t>(value->get_ref<const std::string&>());
  return std::nullopt;
}

Result<uint64_t> get_number(const Json& object, const char* name) {
  const auto number = find_number(object, name);
  if (!number) return not_etcd(fmt::format("\"{}\" is no number", name));
  return *number;
}

bool is_true(const Json& object, const char* name) {
  const Json* value = find(object, name);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

std::string find_text(const Json& object, const char* name) {
  const Json* value = find(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

Result<std::string> get_bytes(const Json& object, const char* name) {
  const Json* value = find(object, name);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return not_etcd(fmt::format("\"{}\" is no text", name));
  auto bytes = net::from_base64(value->get_ref<const std::string&>());
  // Without the text: it may be a secret.
  if (!bytes) return not_etcd(fmt::format("\"{}\" is not base64", name));
  return bytes;
}

Result<Json> parse_object(std::string_view body) {
  Json document = Json::parse(body, nullptr, false);
  if (!document.is_object()) return not_etcd("it is no JSON object");
  return document;
}

Result<uint64_t> store_revision(const Json& document) {
  const Json* header = find(document, "header");
  if (header == nullptr) return not_etcd("it has no header");
  const uint64_t revision = MR_TRY(get_number(*header, "revision"));
  if (revision == 0) return not_etcd("it has no revision");
  return revision;
}

Error failure(int64_t code, const std::string& message) {
  const std::string said = printable(message, 500);
  const auto has = [&](std::string_view text) { return message.find(text) != std::string::npos; };
  if (code == kGrpcUnauthenticated || has("invalid auth token") || has("revision of auth store is old"))
    return make_error(kTokenRefused, "{}", said);
  if (has("requested lease not found")) return make_error(kLeaseEnded, "{}", said);
  if (has("authentication failed") || has("user name is empty") || code == kGrpcPermissionDenied)
    return make_error(Code::kDenied, "{}", said)
        .with_hint("etcd wants a user who may write here: etcd://user:password@host:2379");
  if (has("database space exceeded"))
    return make_error(Code::kNoSpace, "{}", said)
        .with_hint("etcd must be compacted and defragmented: see `etcdctl alarm list`");
  switch (code) {
    case kGrpcInvalidArgument:
    case kGrpcFailedPrecondition:
    case kGrpcOutOfRange:
      return make_error(Code::kInvalid, "{}", said);
    case kGrpcNotFound:
      return make_error(Code::kNotFound, "{}", said);
    case kGrpcUnimplemented:
      return make_error(Code::kUnsupported, "{}", said);
    default:  // no leader, too many requests, a timeout inside etcd: another time or another member may do
      return make_error(Code::kUnavailable, "{}", said);
  }
}

// The gateway reports failures of plain calls as {"error": text, "code": n}, and those of streams as
// {"error": {"message": text, "grpc_code": n}}.
std::optional<Error> find_failure(const Json& document) {
  const Json* error = find(document, "error");
  if (error == nullptr) return std::nullopt;
  const bool of_stream = error->is_object();
  const auto code = find_number(of_stream ? *error : document, of_stream ? "grpc_code" : "code");
  const std::string text = of_stream            ? find_text(*error, "message")
                           : error->is_string() ? error->get<std::string>()
                                                : std::string();
  return failure(static_cast<int64_t>(code.value_or(0)), text);
}

}  // namespace

Result<EtcdRange> parse_range(std::string_view body) {
  const Json document = MR_TRY(parse_object(body));
  EtcdRange range;
  range.revision = MR_TRY(store_revision(document));
  const Json* found = find(document, "kvs");
  if (found == nullptr) return range;
  if (!found->is_array()) return not_etcd("\"kvs\" is no list");
  for (const Json& item : *found) {
    Entry entry;
    entry.name = MR_TRY(get_bytes(item, "key"));
    entry.value = MR_TRY(get_bytes(item, "value"));
    entry.revision = MR_TRY(get_number(item, "mod_revision"));
    if (entry.name.empty() || entry.revision == 0) return not_etcd("an entry without name or revision");
    range.entries.push_back(std::move(entry));
  }
  return range;
}

Result<EtcdTransaction> parse_transaction(std::string_view body) {
  const Json document = MR_TRY(parse_object(body));
  EtcdTransaction done;
  done.revision = MR_TRY(store_revision(document));
  done.succeeded = is_true(document, "succeeded");
  return done;
}

Result<LeaseId> parse_grant(std::string_view body) {
  const Json document = MR_TRY(parse_object(body));
  const uint64_t lease = MR_TRY(get_number(document, "ID"));
  if (lease == 0) return not_etcd("a lease without an id");
  return LeaseId{lease};
}

Result<bool> parse_renewal(std::string_view body) {
  const Json document = MR_TRY(parse_object(body));
  if (auto failed = find_failure(document)) return std::move(*failed);
  const Json* result = find(document, "result");
  if (result == nullptr || !result->is_object()) return not_etcd("a renewal without a result");
  return MR_TRY(get_number(*result, "TTL")) > 0;
}

Result<std::string> parse_token(std::string_view body) {
  const Json document = MR_TRY(parse_object(body));
  std::string token = find_text(document, "token");
  const bool printable_only = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7f; });
  // It goes into a header.
  if (token.empty() || !printable_only) return not_etcd("no token");
  return token;
}

Result<EtcdNotice> parse_notice(std::string_view line) {
  const Json document = MR_TRY(parse_object(line));
  if (auto failed = find_failure(document)) return std::move(*failed);
  const Json* result = find(document, "result");
  if (result == nullptr || !result->is_object()) return not_etcd("a notice without a result");
  EtcdNotice notice;
  notice.created = is_true(*result, "created");
  notice.cancelled = is_true(*result, "canceled");
  notice.compacted = MR_TRY(get_number(*result, "compact_revision"));
  const Json* header = find(*result, "header");
  if (header != nullptr) notice.store_revision = MR_TRY(get_number(*header, "revision"));
  const Json* events = find(*result, "events");
  if (events == nullptr || !events->is_array() || events->empty()) {
    // A plain sign of life says that everything up to the store's revision was told.
    if (!notice.created && !notice.cancelled) notice.seen = notice.store_revision;
    return notice;
  }
  const Json* last = find(events->back(), "kv");
  notice.seen = last != nullptr ? MR_TRY(get_number(*last, "mod_revision")) : 0;
  if (notice.seen == 0) return not_etcd("an event without a revision");
  notice.changed = true;
  return notice;
}

Error parse_failure(int status, std::string_view body) {
  const Json document = Json::parse(body, nullptr, false);
  if (auto failed = find_failure(document)) return std::move(*failed);
  // A proxy between us and etcd says so too.
  if (status == 429 || status >= 500) return make_error(Code::kUnavailable, "status {}", status);
  return make_error(Code::kUnsupported, "status {} without a word of etcd's", status)
      .with_hint("is this an etcd 3.4 or newer, with its JSON gateway (--enable-grpc-gateway) on?");
}

}  // namespace millrace::cluster
