// Reads the keys, and tells how far each is.
#include "gateway/prefetch.h"

#include <nlohmann/json.hpp>

#include "gateway/upload_body.h"

namespace millrace::gateway {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxBody = 2 << 20;

std::string_view state_name(store::Prefetched::State state) {
  using State = store::Prefetched::State;
  switch (state) {
    case State::kStored:
      return "stored";
    case State::kComing:
      return "coming";
    case State::kMissing:
      return "missing";
    case State::kFailed:
      return "failed";
  }
  return "failed";
}

std::string answer_text(const std::vector<store::Prefetched>& entries) {
  Json list = Json::array();
  for (const store::Prefetched& entry : entries) {
    Json json = {{"key", entry.key},
                 {"state", state_name(entry.state)},
                 {"size", entry.size},
                 {"stored_bytes", entry.stored_bytes}};
    if (!entry.problem.empty()) json["problem"] = entry.problem;
    list.push_back(std::move(json));
  }
  const Json answer = {{"keys", std::move(list)}};
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<std::vector<std::string>> parse_prefetch(std::string_view text) {
  const auto bad = [] {
    return make_error(Code::kInvalid,
                      "a prefetch is {{\"keys\": [\"shard-000000.tar\", …]}}, at most {} keys",
                      kMaxPrefetchKeys);
  };
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.size() != 1 || !json.contains("keys")) return bad();
  const Json& list = json.at("keys");
  if (!list.is_array() || list.size() > kMaxPrefetchKeys) return bad();
  std::vector<std::string> keys;
  for (const Json& key : list) {
    if (!key.is_string()) return bad();
    keys.push_back(key.get<std::string>());
    MR_TRY(store::check_key(keys.back()));
  }
  return keys;
}

net::Task<Status> prefetch_objects(Call& call) {
  auto text = co_await read_document(call, kMaxBody);
  if (!text) co_return co_await call.refuse(text.error());
  auto keys = parse_prefetch(*text);
  if (!keys) co_return co_await call.refuse(keys.error());
  std::function<void(store::Done<std::vector<store::Prefetched>>)> start =
      [&call, &keys = *keys](store::Done<std::vector<store::Prefetched>> done) {
        call.objects().prefetch(call.bucket, std::move(keys), std::move(done));
      };
  auto entries = co_await call.ask<std::vector<store::Prefetched>>(std::move(start));
  if (!entries) co_return co_await call.refuse(entries.error());
  co_return co_await call.send_json(answer_text(*entries));
}

}  // namespace millrace::gateway
