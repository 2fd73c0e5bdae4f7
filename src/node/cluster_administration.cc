// The map and the places of objects as JSON, and changes of the map that a person asks for.
#include "node/cluster_administration.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/number.h"
#include "base/rendezvous.h"
#include "base/text.h"
#include "cluster/join_token.h"
#include "cluster/map_changes.h"
#include "store/reasons.h"
#include "store/waiting.h"

namespace millrace::node {

namespace {

using Json = nlohmann::ordered_json;

Json node_json(const cluster::MapNode& node) {
  Json drives = Json::array();
  for (const cluster::MapDrive& drive : node.drives) {
    drives.push_back({{"id", drive.id}, {"weight", drive.weight}, {"state", cluster::name_of(drive.state)}});
  }
  return {{"id", node.id},
          {"number", node.number},
          {"address", node.address},
          {"zone", node.zone},
          {"state", cluster::name_of(node.state)},
          {"since", format_iso_date(node.since_ms)},
          {"drives", std::move(drives)}};
}

// With a map that may be newer than the one the member has read.
Json cluster_json_of(const JoinedCluster& joined, const cluster::Map& map) {
  const cluster::Member& member = joined.member;
  Json nodes = Json::array();
  for (const cluster::MapNode& node : map.nodes()) nodes.push_back(node_json(node));
  Json peers = Json::array();
  for (const cluster::HttpPeers::Reading& reading : joined.links.read()) {
    peers.push_back({{"number", reading.node},
                     {"answers", reading.answers},
                     {"failures", reading.failures},
                     {"mean_answer_us", static_cast<uint64_t>(reading.mean_answer_us)}});
  }
  const uint32_t leader = member.leader();
  Json json = {{"cluster", map.cluster()},
               {"epoch", map.epoch()},
               {"oldest_open", map.oldest_open()},
               {"self", member.self()},
               {"has_lease", member.has_lease()},
               {"leader", member.is_leader()},
               {"led_by", nullptr},
               {"nodes", std::move(nodes)},
               {"peers", std::move(peers)}};
  if (leader != 0) json["led_by"] = leader;
  if (const auto problem = member.problem()) json["problem"] = problem->message();
  return json;
}

std::string_view kind_of(const store::Spread& spread, size_t slot) {
  if (spread.k == 1) return "copy";
  return slot < spread.k ? "data" : "parity";
}

Json slot_json(const cluster::Map& map, const store::Spread& spread, size_t slot) {
  const cluster::DriveId hash = spread.holders[slot];
  Json json = {{"slot", slot}, {"kind", kind_of(spread, slot)}, {"alive", map.is_alive(hash)}};
  const cluster::MapNode* const node = map.node_of(hash);
  // A drive that was taken out of its node for good is in no map any more.
  if (node == nullptr) return json;
  const auto drive =
      std::ranges::find_if(node->drives, [&](const cluster::MapDrive& one) { return one.hash() == hash; });
  json["drive"] = drive->id;
  json["drive_state"] = cluster::name_of(drive->state);
  json["node"] = node->number;
  json["address"] = node->address;
  json["zone"] = node->zone;
  json["node_state"] = cluster::name_of(node->state);
  return json;
}

// By number, or by id.
Result<std::string> find_node(const cluster::Map& map, const Json& wanted) {
  const std::string word =
      wanted.is_string() ? wanted.get<std::string>() : (wanted.is_number_unsigned() ? wanted.dump() : "");
  if (word.empty())
    return make_error(Code::kInvalid, "\"node\" is missing: the number of a node, or its id")
        .with_hint("millrace cluster status lists the nodes");
  const cluster::MapNode* node = map.find_node(word);
  const auto number = parse_number<uint32_t>(word);
  if (node == nullptr && number) node = map.find_node(*number);
  if (node == nullptr)
    return make_error(Code::kNotFound, "the cluster has no node {}", printable(word, 80))
        .with_hint("millrace cluster status lists the nodes");
  if (node->state == cluster::NodeState::kGone)
    return make_error(Code::kInvalid, "node {} was removed already", node->number);
  return node->id;
}

Result<Json> change_node(const JoinedCluster& joined, const std::string& action, const Json& wanted) {
  const auto change = [&](const cluster::Map& map) -> cluster::Changed {
    const std::string id = MR_TRY(find_node(map, wanted));
    if (action == "drain") return cluster::with_drained(map, id, wall_ms());
    return cluster::with_removed(map, id, wall_ms());
  };
  const cluster::KnownMap changed = MR_TRY(cluster::change_map(joined.registry, change));
  joined.member.look_again();
  return cluster_json_of(joined, *changed.map);
}

Result<Json> make_token_json(const JoinedCluster& joined, const Json& wanted) {
  constexpr uint64_t kDefaultSeconds = 3600;
  constexpr uint64_t kMostSeconds =
      std::chrono::duration_cast<std::chrono::seconds>(cluster::kLongestLease).count();
  const uint64_t seconds = wanted.is_null()              ? kDefaultSeconds
                           : wanted.is_number_unsigned() ? wanted.get<uint64_t>()
                                                         : 0;
  if (seconds < 1 || seconds > kMostSeconds)
    return make_error(Code::kInvalid, "a token is valid for 1 to {} seconds", kMostSeconds);
  const std::string token = MR_TRY(cluster::make_token(joined.registry, std::chrono::seconds(seconds)));
  return Json{{"token", token}, {"valid_seconds", seconds}};
}

}  // namespace

Json cluster_json(const JoinedCluster& joined) {
  return cluster_json_of(joined, *joined.member.map());
}

Result<Json> where_json(const JoinedCluster& joined, const cluster::ObjectName& name) {
  MR_TRY(joined.cluster.membership().redundancy(name.bucket));
  const auto found = MR_TRY(store::wait_for<std::optional<cluster::FoundObject>>(
      [&](cluster::Done<std::optional<cluster::FoundObject>> done) {
        joined.cluster.find(name, std::move(done));
      }));
  if (!found) return store::no_such_object(name.bucket, name.key);
  const store::Record& record = found->record;
  const store::Spread& spread = record.spread;
  const auto map = joined.member.map();
  Json slots = Json::array();
  for (size_t slot = 0; slot < spread.holders.size(); ++slot) slots.push_back(slot_json(*map, spread, slot));
  return Json{{"bucket", name.bucket},
              {"key", name.key},
              {"size", record.size},
              {"k", spread.k},
              {"m", spread.m},
              {"cell", spread.cell},
              {"version", {{"epoch", record.version.epoch}, {"node", record.version.node}}},
              {"epoch", map->epoch()},
              {"home", map->home(name_hash(name.bucket, name.key))},
              {"slots", std::move(slots)}};
}

Result<Json> change_cluster(const JoinedCluster& joined, const Json& request) {
  const Json asked = request.value("action", Json());
  const std::string action = asked.is_string() ? asked.get<std::string>() : "";
  const bool of_node = action == "drain" || action == "remove";
  if (!of_node && action != "token")
    return make_error(Code::kInvalid, "a cluster cannot do \"{}\"", printable(action, 32))
        .with_hint("known actions are drain, remove, token");
  for (const auto& [name, value] : request.items()) {
    if (name == "action" || name == (of_node ? "node" : "valid_seconds")) continue;
    return make_error(Code::kInvalid, "\"{}\" is not known with the action {}", printable(name, 64), action)
        .with_hint(of_node ? "it goes with \"node\" alone" : "it goes with \"valid_seconds\" alone");
  }
  if (of_node) return change_node(joined, action, request.value("node", Json()));
  return make_token_json(joined, request.value("valid_seconds", Json()));
}

}  // namespace millrace::node
