// From calls to lines.
#include "gateway/audit.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "base/text.h"
#include "gateway/call.h"
#include "gateway/s3_operations.h"
#include "net/url.h"

namespace millrace::gateway {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostText = 4096;  // of what a client sent
constexpr std::string_view kSecrets[] = {"x-amz-signature", "signature", "x-amz-security-token", "token"};
constexpr std::string_view kProbes[] = {"/-/peer", "/-/live", "/-/ready", "/-/metrics"};

std::string shortened(std::string_view text) {
  if (text.size() <= kMostText) return std::string(text);
  return std::string(text.substr(0, kMostText)) + "…";
}

bool is_secret(std::string_view name) {
  // A name that cannot be decoded is judged as it stands.
  const auto decoded = net::percent_decode(name);
  const std::string word = lower_case(decoded ? *decoded : std::string(name));
  return std::ranges::find(kSecrets, word) != std::end(kSecrets);
}

std::string_view how_it_ended(int status, Answered answered) {
  if (answered == Answered::kCut) return "cut";
  if (status < 400) return "done";
  return status < 500 ? "refused" : "failed";
}

// Who asked, and for what.
Json asked(const Call& call) {
  const net::RequestHead& request = call.request();
  Json what = {{"event", "request"}, {"from", call.connection.peer()}};
  if (call.caller.key != nullptr) what["key_id"] = call.caller.key->access_key;
  what["as"] = call.caller.key != nullptr ? "key" : call.caller.open ? "open" : "anonymous";
  what["operation"] = row_of(call.operation).meter;
  what["method"] = shortened(request.method);
  if (!call.bucket.empty()) what["bucket"] = call.bucket;
  if (!call.key.empty()) what["key"] = call.key;
  // What could not be read as bucket and key, and administration.
  if (call.bucket.empty()) what["path"] = shortened(request.path);
  if (!request.query.empty()) what["query"] = shortened(without_secrets(request.query));
  if (const auto source = request.find("x-amz-copy-source")) what["source"] = shortened(*source);
  if (!call.change.empty()) what["change"] = shortened(call.change);
  return what;
}

void add_outcome(Json& what, int status, std::string_view code, Answered answered) {
  what["outcome"] = how_it_ended(status, answered);
  what["status"] = status;
  if (!code.empty()) what["code"] = code;
}

}  // namespace

bool is_audited(const Call& call) {
  return std::ranges::find(kProbes, call.request().path) == std::end(kProbes);
}

std::string without_secrets(std::string_view query) {
  std::string kept;
  while (true) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    const size_t equals = item.find('=');
    const bool secret = equals != std::string_view::npos && is_secret(item.substr(0, equals));
    kept += secret ? item.substr(0, equals + 1) : item;
    if (secret) kept += "…";
    if (end == query.size()) return kept;
    kept += '&';
    query.remove_prefix(end + 1);
  }
}

std::vector<Json> describe(const Call& call, Answered answered, uint64_t microseconds) {
  Json what = asked(call);
  std::vector<Json> lines;
  if (!call.touched.empty()) what["request"] = make_id();
  for (const TouchedObject& object : call.touched) {
    Json line = what;
    line["key"] = object.key;
    add_outcome(line, object.status, object.code, answered);
    lines.push_back(std::move(line));
  }
  add_outcome(what, call.connection.response_status(), call.refused_with, answered);
  what["bytes_in"] = call.connection.bytes_received();
  what["bytes_out"] = call.connection.bytes_sent();
  what["us"] = microseconds;
  lines.push_back(std::move(what));
  return lines;
}

std::string audit_line(const Json& what) {
  return what.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace millrace::gateway
