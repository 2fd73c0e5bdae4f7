// Settings of an upstream to JSON and back.
#include "store/upstream_settings.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace millrace::store {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxText = 4096;

Error bad(std::string_view name, std::string_view values) {
  return make_error(Code::kInvalid, "\"{}\" of an upstream is {}", printable(name, 32), values);
}

struct TextSetting {
  std::string_view name;
  std::string UpstreamSettings::* member;
};
constexpr TextSetting kTexts[] = {
    {"url", &UpstreamSettings::url},
    {"endpoint", &UpstreamSettings::endpoint},
    {"region", &UpstreamSettings::region},
    {"access_key", &UpstreamSettings::access_key},
    {"secret_key", &UpstreamSettings::secret_key},
    {"session_token", &UpstreamSettings::session_token},
};

Result<std::string> get_text(std::string_view name, const Json& value) {
  if (!value.is_string()) return bad(name, "a text");
  std::string text = value.get<std::string>();
  const bool clean = text.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos;
  if (text.size() > kMaxText || !clean) return bad(name, "one line of at most 4096 bytes");
  return text;
}

Result<std::vector<std::string>> get_pins(const Json& value) {
  constexpr std::string_view kWanted = "a list of at most 64 prefixes of keys";
  if (!value.is_array() || value.size() > UpstreamSettings::kMaxPins) return bad("pin", kWanted);
  std::vector<std::string> pins;
  for (const Json& one : value) pins.push_back(MR_TRY(get_text("pin", one)));
  return pins;
}

Result<std::optional<uint32_t>> get_check(const Json& value) {
  if (value == "never") return std::optional<uint32_t>();
  if (value.is_number_unsigned() && value.get<uint64_t>() <= UpstreamSettings::kMostCheckSeconds)
    return std::optional(value.get<uint32_t>());
  return bad("check", "\"never\" or a number of seconds, at most a year");
}

Result<UpstreamWrites> get_writes(const Json& value) {
  if (value == "none") return UpstreamWrites::kNone;
  if (value == "through") return UpstreamWrites::kThrough;
  return bad("write", "\"none\" or \"through\"");
}

Status change(UpstreamSettings& settings, const std::string& name, const Json& value) {
  for (const TextSetting& text : kTexts) {
    if (text.name != name) continue;
    settings.*text.member = MR_TRY(get_text(name, value));
    return {};
  }
  if (name == "write") {
    settings.writes = MR_TRY(get_writes(value));
  } else if (name == "check") {
    settings.check_seconds = MR_TRY(get_check(value));
  } else if (name == "pin") {
    settings.pinned = MR_TRY(get_pins(value));
  } else {
    return bad(name,
               "not known: url, endpoint, region, access_key, secret_key, session_token, write, check, pin");
  }
  return {};
}

}  // namespace

Json upstream_json(const UpstreamSettings& settings) {
  Json json = {{"url", settings.url}};
  if (!settings.endpoint.empty()) json["endpoint"] = settings.endpoint;
  if (!settings.region.empty()) json["region"] = settings.region;
  json["signed"] = !settings.access_key.empty();
  json["write"] = settings.writes == UpstreamWrites::kThrough ? "through" : "none";
  json["check"] = settings.check_seconds ? Json(*settings.check_seconds) : Json("never");
  json["pin"] = settings.pinned;
  return json;
}

Json stored_upstream_json(const UpstreamSettings& settings) {
  Json json = upstream_json(settings);
  json.erase("signed");
  for (const TextSetting& text : kTexts) json[text.name] = settings.*text.member;
  return json;
}

Result<std::optional<UpstreamSettings>> change_upstream(const std::optional<UpstreamSettings>& before,
                                                        const Json& json) {
  if (json.is_null() || json == "none") return std::optional<UpstreamSettings>();
  if (!json.is_object()) return make_error(Code::kInvalid, "\"upstream\" is an object, or \"none\"");
  UpstreamSettings settings;
  if (!json.contains("url")) {
    if (!before) {
      return make_error(Code::kInvalid, "the bucket has no upstream whose settings could be changed")
          .with_hint("millrace bucket NAME --upstream URL gives it one");
    }
    settings = *before;
  }
  for (const auto& [name, value] : json.items()) MR_TRY(change(settings, name, value));
  if (settings.access_key.empty() != settings.secret_key.empty())
    return make_error(Code::kInvalid, "an upstream's access_key and secret_key come together");
  return std::optional(std::move(settings));
}

}  // namespace millrace::store
