// Parses the JSON of a batch request.
#include "gateway/batch_request.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace millrace::gateway {

namespace {

using Json = nlohmann::json;

Result<BatchEntry> parse_entry(const Json& json, size_t position) {
  const auto bad = [&](std::string_view why) {
    return make_error(Code::kInvalid, "entry {} of the batch {}", position, why);
  };
  if (!json.is_object()) return bad("is not an object");
  BatchEntry entry;
  for (const auto& [name, value] : json.items()) {
    if (name == "object" && value.is_string()) {
      entry.object = value.get<std::string>();
    } else if (name == "sample" && value.is_number_unsigned()) {
      entry.sample = value.get<uint64_t>();
    } else if (name == "member" && value.is_string()) {
      entry.member = value.get<std::string>();
    } else if (name == "range" && value.is_string()) {
      entry.range = value.get<std::string>();
    } else if (name == "name" && value.is_string()) {
      entry.name = value.get<std::string>();
    } else {
      return bad(fmt::format(
          "has a wrong \"{}\": object, member, range (bytes=0-99) and name are text, sample is a number",
          printable(name, 32)));
    }
  }
  if (entry.object.empty()) return bad("names no object");
  if (entry.sample.has_value() + entry.member.has_value() + entry.range.has_value() > 1)
    return bad("asks for two things at once");
  return entry;
}

}  // namespace

Result<uint64_t> count_elements(std::string_view text) {
  constexpr uint64_t kMostPerEntry = 8;
  uint64_t count = 1;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (in_text && letter == '\\') {
      ++i;
    } else if (letter == '"') {
      in_text = !in_text;
    } else if (!in_text && (letter == ',' || letter == '{' || letter == '[')) {
      ++count;
    }
  }
  if (count <= kMostPerEntry * kMaxBatchEntries) return count;
  return make_error(Code::kTooLarge, "the batch has more than {} entries", kMaxBatchEntries);
}

Result<BatchRequest> parse_batch_request(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return make_error(Code::kInvalid, "the batch is not JSON");
  BatchRequest request;
  const Json* entries = &json;
  if (json.is_object()) {
    for (const auto& [name, value] : json.items()) {
      if (name == "entries") continue;
      if (name != "missing")
        return make_error(Code::kInvalid,
                          "the batch has an unknown \"{}\": \"entries\" and \"missing\" are known",
                          printable(name, 32));
      if (value != "report" && value != "error")
        return make_error(Code::kInvalid, "\"missing\" is \"report\" or \"error\"");
      request.fail_on_missing = value == "error";
    }
    if (!json.contains("entries")) return make_error(Code::kInvalid, "the batch has no \"entries\"");
    entries = &json.at("entries");
  }
  if (!entries->is_array()) return make_error(Code::kInvalid, "the batch is not a list");
  if (entries->size() > kMaxBatchEntries)
    return make_error(Code::kTooLarge, "the batch has more than {} entries", kMaxBatchEntries);
  for (size_t i = 0; i < entries->size(); ++i)
    request.entries.push_back(MR_TRY(parse_entry((*entries)[i], i)));
  return request;
}

}  // namespace millrace::gateway
