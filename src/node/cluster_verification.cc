// Positions and findings of a verification, from and to JSON.
#include "node/cluster_verification.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/text.h"
#include "cluster/hidden_bucket.h"
#include "cluster/verification.h"
#include "net/digest.h"

namespace millrace::node {

namespace {

using Json = nlohmann::ordered_json;

// Keys may be any bytes, which JSON cannot hold: they go as hex.
Json position_json(const cluster::VerifyPosition& position) {
  return {{"bucket", position.bucket},
          {"after", net::to_hex(position.after)},
          {"write", net::to_hex(position.write_id)},
          {"block", position.block},
          {"settled", position.settled},
          {"below", position.below}};
}

Result<cluster::VerifyPosition> parse_position(const Json& json, const std::string& bucket) {
  const auto broken = [] {
    return make_error(Code::kInvalid, "\"next\" is not what an answer of /-/cluster/verify had there");
  };
  const auto is_text = [&](const char* name) { return json.value(name, Json()).is_string(); };
  const bool known = json.is_object() && is_text("bucket") && is_text("after") && is_text("write") &&
                     json.value("block", Json()).is_number_unsigned() &&
                     json.value("settled", Json()).is_array() && json.value("below", Json()).is_boolean();
  if (!known) return broken();
  const Json& settled = json["settled"];
  if (!std::ranges::all_of(settled, [](const Json& slot) { return slot.is_number_unsigned(); }))
    return broken();
  cluster::VerifyPosition position;
  position.bucket = json["bucket"].get<std::string>();
  position.after = MR_TRY(net::from_hex(json["after"].get<std::string>()));
  position.write_id = MR_TRY(net::from_hex(json["write"].get<std::string>()));
  position.block = json["block"].get<uint64_t>();
  for (const Json& slot : settled) position.settled.insert(slot.get<unsigned>());
  position.below = json["below"].get<bool>();
  if (cluster::real_bucket(position.bucket) != bucket) return broken();
  return position;
}

std::string_view name_of(cluster::SliceFinding::Kind kind) {
  switch (kind) {
    case cluster::SliceFinding::Kind::kMissing:
      return "missing";
    case cluster::SliceFinding::Kind::kDamaged:
      return "damaged";
    case cluster::SliceFinding::Kind::kUnseen:
      break;
  }
  return "unseen";
}

Json finding_json(const cluster::Map& map, const cluster::SliceFinding& finding) {
  Json json = {{"found", name_of(finding.kind)}, {"bucket", finding.name.bucket}, {"key", finding.name.key}};
  if (!finding.belongs_to.empty()) json["of"] = finding.belongs_to;
  json["slot"] = finding.slot;
  if (finding.block) json["block"] = *finding.block;
  json.update(drive_json(map, finding.drive));
  json["why"] = finding.why;
  return json;
}

}  // namespace

Result<Json> verify_cluster(const JoinedCluster& joined, const Json& request) {
  const Json wanted = request.value("bucket", Json());
  if (!wanted.is_string()) return make_error(Code::kInvalid, "\"bucket\" is missing: the name of a bucket");
  for (const auto& [name, value] : request.items()) {
    if (name == "bucket" || name == "next") continue;
    return make_error(Code::kInvalid, "\"{}\" is not known in /-/cluster/verify", printable(name, 64))
        .with_hint("it goes with \"bucket\" and \"next\" alone");
  }
  cluster::VerifyPosition from;
  from.bucket = wanted.get<std::string>();
  if (cluster::real_bucket(from.bucket) != from.bucket)
    return make_error(Code::kInvalid, "{} is not the name of a bucket", printable(from.bucket, 80));
  if (request.contains("next")) from = MR_TRY(parse_position(request["next"], from.bucket));
  MR_TRY(joined.cluster.membership().redundancy(from.bucket));
  const cluster::Verified verified = MR_TRY(cluster::verify_some(joined.cluster, from));
  const auto map = joined.member.map();
  Json findings = Json::array();
  for (const cluster::SliceFinding& finding : verified.findings)
    findings.push_back(finding_json(*map, finding));
  Json json = {{"objects", verified.objects},
               {"slices", verified.slices},
               {"bytes", verified.bytes},
               {"below_redundancy", verified.below},
               {"handed_over", verified.handed_over},
               {"findings", std::move(findings)}};
  if (verified.next) json["next"] = position_json(*verified.next);
  return json;
}

}  // namespace millrace::node
