// Sends one request to a running node and reads its JSON answer.
#include "cli/remote.h"

#include "net/client.h"
#include "transfer/stores.h"

namespace millrace::cli {

namespace {

constexpr uint64_t kMaxAnswer = 64 << 20;

}  // namespace

Result<Json> administer(Shell& shell, const std::string& endpoint, const std::string& method,
                        const std::string& what, const Json& body) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  const transfer::Location node = MR_TRY(endpoint.empty() ? stores->find_default() : stores->find(endpoint));
  return administer(*node.store, {method, what, "", body});
}

Result<Json> administer(transfer::Store& store, const NodeRequest& wanted) {
  net::Request request;
  request.method = wanted.method;
  request.url = store.url("", "");
  const std::string base = request.url.text();
  request.url.path = "/-/" + wanted.what;
  request.url.query = wanted.query;
  request.repeat = net::Repeat::kNever;
  const std::string text = wanted.body.is_null() ? "" : wanted.body.dump();
  request.body = std::string_view(text);
  auto response = store.client().send(request);
  if (!response)
    return std::move(response)
        .within("asking the node at " + base)
        .take_error()
        .with_hint("is it running? millrace up starts one");
  const std::string answer = MR_TRY(response->read_all(kMaxAnswer));
  const Json json = Json::parse(answer, nullptr, false);
  if (!response->is_success()) {
    if (json.is_object() && json.contains("message")) {
      return make_error(Code::kInvalid, "{}", json.at("message").get<std::string>())
          .with_hint(json.value("hint", ""));
    }
    return make_error(Code::kUnavailable, "{} answered {}", base, response->status());
  }
  if (json.is_discarded())
    return make_error(Code::kCorrupt, "{} did not answer in JSON", base).with_hint("is it a Millrace node?");
  return json;
}

}  // namespace millrace::cli
