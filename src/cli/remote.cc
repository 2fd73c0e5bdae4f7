// One request, one JSON answer.
#include "cli/remote.h"

#include <cstdlib>

#include "net/client.h"

namespace millrace::cli {

namespace {

constexpr uint64_t kMaxAnswer = 64 << 20;

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

}  // namespace

std::string endpoint_or_default(const std::string& endpoint) {
  std::string chosen = endpoint.empty() ? environment("MILLRACE_ENDPOINT") : endpoint;
  if (chosen.empty()) chosen = "http://127.0.0.1:9400";
  while (chosen.ends_with('/')) chosen.pop_back();
  return chosen;
}

Result<Json> administer(const std::string& endpoint, const std::string& method, const std::string& what,
                        const Json& body) {
  net::ClientOptions options;
  options.most_attempts = 1;
  net::Credentials credentials;
  credentials.access_key = environment("MILLRACE_ACCESS_KEY");
  credentials.secret_key = environment("MILLRACE_SECRET_KEY");
  if (!credentials.access_key.empty()) options.credentials = credentials;
  const auto client = MR_TRY(net::Client::make(options));
  const std::string base = endpoint_or_default(endpoint);
  net::Request request;
  request.method = method;
  request.url = MR_TRY(net::parse_url(base + "/-/" + what));
  request.repeat = net::Repeat::kNever;
  const std::string text = body.is_null() ? "" : body.dump();
  request.body = std::string_view(text);
  auto response = client->send(request);
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
