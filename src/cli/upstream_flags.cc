// Reads flags and key files of upstreams.
#include "cli/upstream_flags.h"

#include <algorithm>
#include <map>

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "transfer/stores.h"

namespace millrace::cli {

namespace {

constexpr uint64_t kMostFileBytes = 1 << 20;

struct KeyName {
  std::string_view in_file;
  std::string_view setting;
};
constexpr KeyName kKeyNames[] = {
    {"aws_access_key_id", "access_key"},
    {"access_key", "access_key"},
    {"MILLRACE_ACCESS_KEY", "access_key"},
    {"aws_secret_access_key", "secret_key"},
    {"secret_key", "secret_key"},
    {"MILLRACE_SECRET_KEY", "secret_key"},
    {"aws_session_token", "session_token"},
    {"session_token", "session_token"},
    {"region", "region"},
    {"endpoint_url", "endpoint"},
    {"endpoint", "endpoint"},
};

// An alias is known on this machine alone, so the node is told what it stands for.
Status resolve_alias(Shell& shell, Json& json) {
  const auto url = json.at("url").get<std::string>();
  if (!url.starts_with(transfer::kAliasScheme)) return {};
  const size_t colon = url.find("://");
  const std::string name = url.substr(transfer::kAliasScheme.size(), colon - transfer::kAliasScheme.size());
  transfer::Stores* stores = MR_TRY(shell.stores());
  const auto& aliases = stores->settings().aliases;
  const auto alias = std::ranges::find(aliases, name, &transfer::Alias::name);
  if (alias == aliases.end())
    return make_error(Code::kNotFound, "there is no alias {}", printable(name, 80))
        .with_hint("millrace alias list shows them, millrace alias set makes one");
  json["url"] = "mr" + url.substr(colon);
  json["endpoint"] = alias->endpoint;
  if (alias->credentials) {
    json["access_key"] = alias->credentials->access_key;
    json["secret_key"] = alias->credentials->secret_key;
  }
  return {};
}

}  // namespace

void UpstreamFlags::add_to(CLI::App& verb) {
  verb.add_option(
          "--upstream", url,
          "Storage that the bucket is in front of: s3://BUCKET/PREFIX, mr://HOST:PORT/BUCKET/PREFIX or "
          "https://HOST/PATH; none: no longer")
      ->type_name("URL");
  verb.add_option("--upstream-endpoint", endpoint, "Address of the S3 server or node; default: Amazon's")
      ->type_name("URL");
  verb.add_option("--keys", keys_file, "File with the upstream's keys, such as ~/.aws/credentials")
      ->type_name("FILE");
  verb.add_option("--write", write,
                  "none (default): the bucket takes no writes; through: a write is acknowledged when the "
                  "upstream has it")
      ->check(CLI::IsMember({"none", "through"}).description(""))
      ->type_name("none|through");
  verb.add_option("--check", check,
                  "Seconds after which a stored object is compared with the upstream's before it is served; "
                  "never (default)")
      ->type_name("SECONDS");
  verb.add_option("--pin", pins,
                  "Prefix of keys that stay stored when room is made; may be repeated; none: no pins")
      ->type_name("PREFIX");
}

Result<Json> UpstreamFlags::settings(Shell& shell) const {
  if (url == "none") {
    if (!endpoint.empty() || !keys_file.empty() || !write.empty() || !check.empty() || !pins.empty())
      return make_error(Code::kInvalid, "--upstream none takes no other settings of an upstream");
    return Json("none");
  }
  Json json = Json::object();
  if (!url.empty()) json["url"] = url;
  if (!url.empty()) MR_TRY(resolve_alias(shell, json));
  if (!keys_file.empty()) {
    const std::string text = MR_TRY(read_file(keys_file, kMostFileBytes));
    json.update(MR_TRY(read_upstream_keys(text, keys_file)));
  }
  if (!endpoint.empty()) json["endpoint"] = endpoint;
  if (!write.empty()) json["write"] = write;
  if (check == "never") json["check"] = check;
  if (!check.empty() && check != "never") {
    const auto seconds = parse_number<uint32_t>(check);
    if (!seconds) return make_error(Code::kInvalid, "--check is never or a number of seconds, not {}", check);
    json["check"] = *seconds;
  }
  if (pins == std::vector<std::string>{"none"}) {
    json["pin"] = Json::array();
  } else if (!pins.empty()) {
    json["pin"] = pins;
  }
  return json.empty() ? Json() : json;
}

Result<Json> read_upstream_keys(std::string_view text, const std::string& file) {
  const bool has_sections = text.starts_with('[') || text.find("\n[") != std::string_view::npos;
  const std::string whole = (has_sections ? "" : "[default]\n") + std::string(text);
  const transfer::Profile profile = transfer::read_profile(whole, "default");
  Json json = Json::object();
  for (const auto& [in_file, setting] : kKeyNames) {
    const auto found = profile.find(std::string(in_file));
    if (found != profile.end() && !found->second.empty()) json[setting] = found->second;
  }
  if (json.contains("access_key") && json.contains("secret_key")) return json;
  return make_error(Code::kInvalid, "{} has no access key and secret key", file)
      .with_hint("lines such as: access_key = …, secret_key = …; or a file as ~/.aws/credentials, [default]");
}

Json without_secrets(Json settings) {
  if (!settings.is_object() || !settings.contains("upstream") || !settings["upstream"].is_object())
    return settings;
  Json& upstream = settings["upstream"];
  upstream["signed"] = upstream.contains("access_key");
  for (const char* secret : {"access_key", "secret_key", "session_token"}) upstream.erase(secret);
  return settings;
}

std::string upstream_text(const Json& bucket) {
  if (!bucket.contains("upstream")) return "";
  const Json& upstream = bucket.at("upstream");
  const Json& seconds = upstream.at("check");
  std::string text =
      fmt::format("  upstream={} signed={} write={} check={}", upstream.at("url").get<std::string>(),
                  upstream.at("signed").get<bool>() ? "yes" : "no", upstream.at("write").get<std::string>(),
                  seconds.is_string() ? "never" : fmt::format("{}s", seconds.get<uint64_t>()));
  for (const Json& pin : upstream.at("pin"))
    text += fmt::format(" pin={}", printable(pin.get<std::string>(), 80));
  return text;
}

}  // namespace millrace::cli
