// One request, and its answer in JSON.
#include "transfer/prefetch.h"

#include <nlohmann/json.hpp>

namespace millrace::transfer {

namespace {

using Json = nlohmann::ordered_json;
constexpr uint64_t kMostAnswer = 4 << 20;

}  // namespace

Result<std::vector<Prefetched>> ask_prefetch(const Location& bucket, const std::vector<std::string>& keys) {
  const std::string body = Json{{"keys", keys}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  net::Request request;
  request.method = "POST";
  request.url = bucket.store->url(bucket.bucket, "", "prefetch=");
  request.headers = {{"content-type", "application/json"}};
  request.body = std::string_view(body);
  request.repeat = net::Repeat::kSafe;
  net::Response response = MR_TRY(bucket.store->client().call(request));
  const Json answer = Json::parse(MR_TRY(response.read_all(kMostAnswer)), nullptr, false);
  const auto strange = [&] {
    return make_error(Code::kCorrupt, "{} did not answer as a Millrace node does", bucket.text())
        .with_hint("is it a Millrace node of this version?");
  };
  if (!answer.is_object() || !answer.value("keys", Json()).is_array()) return strange();
  std::vector<Prefetched> all;
  for (const Json& one : answer["keys"]) {
    const bool whole = one.is_object() && one.value("key", Json()).is_string() &&
                       one.value("state", Json()).is_string() &&
                       one.value("stored_bytes", Json()).is_number_unsigned();
    if (!whole) return strange();
    Prefetched said;
    said.key = one["key"].get<std::string>();
    said.stored_bytes = one["stored_bytes"].get<uint64_t>();
    const auto state = one["state"].get<std::string>();
    if (state == "stored") said.state = Prefetched::State::kStored;
    if (state != "stored" && state != "coming") {
      said.state = Prefetched::State::kFailed;
      const Json problem = one.value("problem", Json());
      said.problem =
          problem.is_string() ? problem.get<std::string>() : bucket.with_key(said.key).text() + ": " + state;
    }
    all.push_back(std::move(said));
  }
  return all;
}

}  // namespace millrace::transfer
