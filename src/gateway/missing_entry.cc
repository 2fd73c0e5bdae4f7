// Reports missing entries as members of the tar.
#include "gateway/missing_entry.h"

#include <nlohmann/json.hpp>

#include "gateway/s3_errors.h"
#include "tar/format.h"
#include "tar/writer.h"

namespace millrace::gateway {

using Json = nlohmann::ordered_json;

Json missing_json(const BatchEntry& entry, size_t position, const Error& error) {
  const Refusal refusal = refusal_of(error);
  Json json = {{"position", position}, {"object", entry.object}};
  if (entry.sample) json["sample"] = *entry.sample;
  if (entry.member) json["member"] = *entry.member;
  if (entry.range) json["range"] = *entry.range;
  json["code"] = refusal.code();
  json["message"] = refusal.message;
  return json;
}

Result<std::string> report_missing(const Json& json, size_t position) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string member = MR_TRY(
      tar::make_header({.name = fmt::format("__missing__/{:06}.json", position), .size = text.size()}));
  text.resize(tar::padded(text.size()));
  return member + text;
}

}  // namespace millrace::gateway
