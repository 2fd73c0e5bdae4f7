// Settings to words and back.
#include "store/bucket_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/number.h"
#include "base/text.h"
#include "store/record.h"

namespace millrace::store {

namespace {

using Json = nlohmann::ordered_json;

Error bad(std::string_view name, std::string_view values) {
  return make_error(Code::kInvalid, "\"{}\" is {}", printable(name, 32), values);
}

// The position of the value among the words.
Result<size_t> find_word(const std::string& name, const Json& value,
                         std::initializer_list<std::string_view> words) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  size_t position = 0;
  std::string known;
  for (const std::string_view word : words) {
    if (word == text) return position;
    known += fmt::format("{}\"{}\"", position == 0 ? "" : position + 1 == words.size() ? " or " : ", ", word);
    ++position;
  }
  return bad(name, known);
}

// "a,b", "*" or "none".
Result<std::string> parse_transforms(const Json& value) {
  constexpr size_t kMostBytes = 4096;
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  const std::vector<std::string> names = split_words(text);
  const bool is_good = !names.empty() && text.size() <= kMostBytes &&
                       (text == "*" || std::ranges::all_of(names, [&](const std::string& name) {
                          return std::ranges::all_of(name, is_letter);
                        }));
  if (!is_good) return bad("transforms", "names of transforms with commas between them, \"*\" or \"none\"");
  if (text == "none") return std::string();
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ",") + name;
  return joined;
}

Status change(BucketSettings& settings, const std::string& name, const Json& value) {
  if (name == "durability") {
    settings.durability = static_cast<Durability>(MR_TRY(find_word(name, value, {"flush", "os"})));
  } else if (name == "etag") {
    settings.etag = static_cast<EtagMode>(MR_TRY(find_word(name, value, {"auto", "md5", "fast"})));
  } else if (name == "verify") {
    settings.verify = static_cast<Compare>(MR_TRY(find_word(name, value, {"first", "read", "scrub"})));
  } else if (name == "anonymous_read") {
    if (!value.is_boolean()) return bad(name, "true or false");
    settings.anonymous_read = value.get<bool>();
  } else if (name == "redundancy") {
    settings.redundancy = MR_TRY(parse_redundancy(value.is_string() ? value.get<std::string>() : ""));
  } else if (name == "floor") {
    const Redundancy& redundancy = settings.redundancy;
    if (!value.is_number_unsigned() || value.get<uint64_t>() < redundancy.k ||
        value.get<uint64_t>() > redundancy.slices()) {
      return bad(name, fmt::format("a number from {} to {} with redundancy {}", redundancy.k,
                                   redundancy.slices(), redundancy_text(redundancy)));
    }
    settings.redundancy.floor = value.get<uint8_t>();
  } else if (name == "upstream") {
    settings.upstream = MR_TRY(change_upstream(settings.upstream, value));
  } else if (name == "transforms") {
    settings.transforms = MR_TRY(parse_transforms(value));
  } else if (name == "quota_bytes" || name == "quota_objects") {
    if (!value.is_number_unsigned()) return bad(name, "a number; 0 is no limit");
    (name == "quota_bytes" ? settings.quota.bytes : settings.quota.objects) = value.get<uint64_t>();
  } else {
    return bad(name,
               "not a setting of buckets: durability, etag, verify, anonymous_read, redundancy, floor, "
               "quota_bytes, quota_objects, upstream, transforms");
  }
  return {};
}

}  // namespace

Json settings_json(const BucketSettings& settings) {
  constexpr const char* kDurabilities[] = {"flush", "os"};
  constexpr const char* kEtags[] = {"auto", "md5", "fast"};
  constexpr const char* kVerify[] = {"first", "read", "scrub"};
  Json json = {{"durability", kDurabilities[static_cast<size_t>(settings.durability)]},
               {"etag", kEtags[static_cast<size_t>(settings.etag)]},
               {"verify", kVerify[static_cast<size_t>(settings.verify)]},
               {"anonymous_read", settings.anonymous_read},
               {"redundancy", redundancy_text(settings.redundancy)},
               {"floor", settings.redundancy.floor}};
  // A node that knows no quotas reads what has none.
  if (settings.quota.bytes > 0) json["quota_bytes"] = settings.quota.bytes;
  if (settings.quota.objects > 0) json["quota_objects"] = settings.quota.objects;
  if (settings.upstream) json["upstream"] = upstream_json(*settings.upstream);
  if (!settings.transforms.empty()) json["transforms"] = settings.transforms;
  return json;
}

Json stored_settings_json(const BucketSettings& settings) {
  Json json = settings_json(settings);
  if (settings.upstream) json["upstream"] = stored_upstream_json(*settings.upstream);
  return json;
}

Result<BucketSettings> change_settings(BucketSettings settings, const Json& json) {
  // The floor is judged by the redundancy that goes with it.
  if (json.contains("redundancy")) MR_TRY(change(settings, "redundancy", json.at("redundancy")));
  for (const auto& [name, value] : json.items()) {
    if (name != "redundancy") MR_TRY(change(settings, name, value));
  }
  return settings;
}

std::string redundancy_text(const Redundancy& redundancy) {
  if (redundancy.slices() == 1) return "none";
  if (redundancy.k == 1) return fmt::format("copies={}", redundancy.slices());
  return fmt::format("{}+{}", redundancy.k, redundancy.m);
}

Result<Redundancy> parse_redundancy(std::string_view text) {
  const auto refuse = [&] {
    return make_error(Code::kInvalid, "\"{}\" is not a redundancy", printable(text, 32))
        .with_hint("none, copies=3, or k+m such as 4+2, with k up to 32 and m up to 16");
  };
  constexpr std::string_view kCopies = "copies=";
  Redundancy redundancy;
  if (text == "none") return redundancy;
  if (text.starts_with(kCopies)) {
    const auto copies = parse_number<uint8_t>(text.substr(kCopies.size()));
    if (!copies || *copies < 1 || *copies > 17) return refuse();
    redundancy.m = static_cast<uint8_t>(*copies - 1);
  } else {
    const size_t plus = text.find('+');
    if (plus == std::string_view::npos) return refuse();
    const auto k = parse_number<uint8_t>(text.substr(0, plus));
    const auto m = parse_number<uint8_t>(text.substr(plus + 1));
    if (!k || !m || *k < 1 || *k > 32 || *m > 16) return refuse();
    redundancy.k = *k;
    redundancy.m = *m;
  }
  redundancy.floor = static_cast<uint8_t>(redundancy.k + (redundancy.m > 0 ? 1 : 0));
  return redundancy;
}

}  // namespace millrace::store
