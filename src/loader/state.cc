// Writes and reads states as JSON.
#include "loader/state.h"

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/text.h"

namespace millrace::loader {

namespace {

using Json = nlohmann::ordered_json;
constexpr int kVersion = 1;

// Of long lists only a hash: a state stays small.
Json brief(const Json& value) {
  constexpr size_t kMostBytes = 128;
  const std::string text = value.dump();
  return text.size() <= kMostBytes ? value : Json(fmt::format("hash {:016x}", hash64(text)));
}

// What must be the same for the order to be the same.
Json describe(const Catalogue& catalogue, const Recipe& recipe) {
  return {{"version", kVersion},
          {"dataset", fmt::format("{:016x}", catalogue.identity())},
          {"samples", catalogue.samples()},
          {"seed", recipe.seed},
          {"batch_size", recipe.batch},
          {"window", recipe.window},
          {"end", epoch_end_name(recipe.end)},
          {"weights", brief(recipe.weights)},
          {"bucket_by", brief(recipe.bucket_by)},
          {"bucket_batches", recipe.bucket_by.empty() ? 0 : recipe.bucket_batches}};
}

}  // namespace

std::string format_state(const State& state, const Catalogue& catalogue, const Recipe& recipe) {
  Json json = describe(catalogue, recipe);
  json["epoch"] = state.epoch;
  json["batch"] = state.batch;
  if (state.world > 0) json["world"] = state.world;
  return json.dump();
}

Result<State> parse_state(std::string_view text, const Catalogue& catalogue, const Recipe& recipe) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return make_error(Code::kInvalid, "the state is not JSON of a loader");
  const Json wanted = describe(catalogue, recipe);
  for (const auto& [name, value] : wanted.items()) {
    if (json.contains(name) && json[name] == value) continue;
    return make_error(Code::kInvalid, "the state belongs to another run: its {} is {}, here it is {}", name,
                      json.contains(name) ? printable(json[name].dump(), 80) : "missing", value.dump());
  }
  for (const char* name : {"epoch", "batch"}) {
    if (!json.contains(name) || !json[name].is_number_unsigned())
      return make_error(Code::kInvalid, "the state has no {}", name);
  }
  const auto world = json.find("world");
  if (world != json.end() && !world->is_number_unsigned())
    return make_error(Code::kInvalid, "the state's world is no number");
  return State{json["epoch"], json["batch"], world == json.end() ? 0 : world->get<uint64_t>()};
}

}  // namespace millrace::loader
