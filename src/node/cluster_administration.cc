// The map and the places of objects as JSON, and changes of the map that a person asks for.
#include "node/cluster_administration.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/number.h"
#include "base/rendezvous.h"
#include "base/text.h"
#include "cluster/cluster_list.h"
#include "cluster/hidden_bucket.h"
#include "cluster/join_token.h"
#include "cluster/map_changes.h"
#include "cluster/needed.h"
#include "cluster/slice_repair.h"
#include "store/reasons.h"
#include "store/waiting.h"

namespace millrace::node {

namespace {

using Json = nlohmann::ordered_json;

Json node_json(const cluster::MapNode& node) {
  Json drives = Json::array();
  for (const cluster::MapDrive& drive : node.drives) {
    drives.push_back({{"id", drive.id}, {"weight", drive.weight}, {"state", cluster::name_of(drive.state)}});
    if (drive.full) drives.back()["full"] = true;
  }
  return {{"id", node.id},
          {"number", node.number},
          {"address", node.address},
          {"tls", node.tls},
          {"zone", node.zone},
          {"state", cluster::name_of(node.state)},
          {"since", format_iso_date(node.since_ms)},
          {"drives", std::move(drives)}};
}

Json progress_json(const cluster::Progress& progress) {
  Json json = {{"clean", progress.clean},
               {"walking", progress.walking},
               {"rows", progress.rows},
               {"rows_before", progress.rows_before},
               {"slices", progress.held},
               {"objects", progress.objects},
               {"below_redundancy", progress.below},
               {"below_floor", progress.below_floor},
               {"bytes_to_move", progress.to_move_bytes},
               {"needed", progress.needed},
               {"failures", progress.failures},
               {"mended", progress.mended},
               {"slices_built", progress.built},
               {"bytes_built", progress.built_bytes},
               {"bytes_per_second", progress.bytes_per_second},
               {"forgotten", progress.forgotten},
               {"under_way", progress.under_way},
               {"damaged_slices", progress.damaged},
               {"repaired_slices", progress.repaired}};
  if (!progress.problem.empty()) json["problem"] = progress.problem;
  return json;
}

// Of every node that answers, by number.
std::map<uint32_t, cluster::Progress> ask_progress(const JoinedCluster& joined, const cluster::Map& map) {
  std::vector<std::pair<uint32_t, std::future<Result<cluster::Reply>>>> asked;
  for (const cluster::MapNode& node : map.nodes()) {
    if (!node.is_alive()) continue;
    asked.emplace_back(node.number, store::ask_for<cluster::Reply>([&](cluster::Done<cluster::Reply> done) {
                         joined.cluster.call(node.number, cluster::ProgressRequest{}, std::move(done));
                       }));
  }
  std::map<uint32_t, cluster::Progress> told;
  for (auto& [node, answer] : asked) {
    const Result<cluster::Reply> reply = answer.get();
    const auto* progress = reply ? std::get_if<cluster::ProgressReply>(&*reply) : nullptr;
    if (progress != nullptr) told[node] = progress->progress;
  }
  return told;
}

// With a map that may be newer than the one the member has read.
Json cluster_json_of(const JoinedCluster& joined, const cluster::Map& map) {
  const cluster::Member& member = joined.member;
  Json nodes = Json::array();
  const std::map<uint32_t, cluster::Progress> told = ask_progress(joined, map);
  for (const cluster::MapNode& node : map.nodes()) {
    nodes.push_back(node_json(node));
    const auto progress = told.find(node.number);
    if (progress != told.end()) nodes.back()["progress"] = progress_json(progress->second);
  }
  Json peers = Json::array();
  for (const cluster::HttpPeers::Reading& reading : joined.links.read()) {
    peers.push_back({{"number", reading.node},
                     {"answers", reading.answers},
                     {"failures", reading.failures},
                     {"mean_answer_us", reading.times.mean_us},
                     {"grey", cluster::why_grey(reading.times)}});
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
  const cluster::DriveId drive = spread.holders[slot];
  Json json = {{"slot", slot}, {"kind", kind_of(spread, slot)}, {"alive", map.is_alive(drive)}};
  json.update(drive_json(map, drive));
  return json;
}

// Where the slices of one write are.
Json spread_json(const cluster::Map& map, const store::Record& record) {
  const store::Spread& spread = record.spread;
  Json slots = Json::array();
  for (size_t slot = 0; slot < spread.holders.size(); ++slot) slots.push_back(slot_json(map, spread, slot));
  return {{"size", record.size},
          {"k", spread.k},
          {"m", spread.m},
          {"cell", spread.cell},
          {"slots", std::move(slots)}};
}

// Of an object that is the parts of an upload: where each part is.
Result<Json> parts_json(const JoinedCluster& joined, const cluster::Map& map, const std::string& bucket,
                        const store::Record& record) {
  const std::vector<cluster::ListedRecord> listed =
      MR_TRY(cluster::list_records(joined.cluster, cluster::parts_of(bucket), record.upload + "/"));
  Json parts = Json::array();
  for (const store::Piece& piece : record.pieces) {
    const std::string key = cluster::part_key(record.upload, piece.file);
    const auto part = std::ranges::find(listed, key, &cluster::ListedRecord::key);
    if (part == listed.end())
      return make_error(Code::kUnavailable, "part {} is gone: the object was replaced", parts.size() + 1);
    parts.push_back(spread_json(map, part->record));
  }
  return parts;
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

// A write that began before the drain may still be committed while the map of that time is open.
Status check_gets_nothing(const JoinedCluster& joined, const cluster::MapNode& node) {
  const auto maps = joined.member.maps();
  const auto serves = [&](const auto& map) {
    const cluster::MapNode* const then = map->find_node(node.id);
    return then != nullptr && then->state == cluster::NodeState::kServing;
  };
  if (std::ranges::none_of(*maps, serves)) return {};
  return make_error(Code::kInvalid,
                    "node {} drains and is empty, and writes that began before may still come", node.number)
      .with_hint("ask again in a moment; while another node is away, bring that back first, or remove it");
}

// A node that drains and lives must be empty: what it holds may be nowhere else. One that is away is lost.
Status check_removable(const JoinedCluster& joined, const cluster::Map& map, const cluster::MapNode& node) {
  if (node.state != cluster::NodeState::kDraining) return {};
  const std::map<uint32_t, cluster::Progress> told = ask_progress(joined, map);
  const auto progress = told.find(node.number);
  if (progress == told.end())
    return make_error(Code::kUnavailable, "node {} drains and does not answer: is it empty?", node.number)
        .with_hint(
            "ask again; if it is lost, the map calls it away in some seconds, and it can be removed then");
  if (progress->second.clean == map.epoch() && progress->second.held == 0)
    return check_gets_nothing(joined, node);
  return make_error(Code::kInvalid,
                    "node {} drains and is not empty yet: {} slices were there when it last looked",
                    node.number, progress->second.held)
      .with_hint(
          "wait until millrace cluster status says that it is empty; if its drives are lost, stop it first");
}

Result<Json> change_node(const JoinedCluster& joined, const std::string& action, const Json& wanted) {
  const auto change = [&](const cluster::Map& map) -> cluster::Changed {
    const std::string id = MR_TRY(find_node(map, wanted));
    if (action == "drain") return cluster::with_drained(map, id, wall_ms());
    MR_TRY(check_removable(joined, map, *map.find_node(id)));
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

Json drive_json(const cluster::Map& map, cluster::DriveId hash) {
  const cluster::MapNode* const node = map.node_of(hash);
  // A drive that was taken out of its node for good is in no map any more.
  if (node == nullptr) return Json::object();
  const auto drive =
      std::ranges::find_if(node->drives, [&](const cluster::MapDrive& one) { return one.hash() == hash; });
  return {{"drive", drive->id},   {"drive_state", cluster::name_of(drive->state)},
          {"node", node->number}, {"address", node->address},
          {"zone", node->zone},   {"node_state", cluster::name_of(node->state)}};
}

Status check_maintenance(const JoinedCluster& joined) {
  const auto map = joined.member.map();
  const std::map<uint32_t, cluster::Progress> told = ask_progress(joined, *map);
  const cluster::NeededObjects needed = MR_TRY(cluster::count_needed(joined.cluster));
  if (needed.count > 0)
    return make_error(store::kConditionFailed,
                      "{} objects would be below the floor of their buckets without this node, for example "
                      "in bucket {}",
                      needed.count, needed.example.bucket)
        .with_hint(fmt::format(
            "if nodes are away, wait until they are back or healed; otherwise more copies help: millrace "
            "bucket {} --redundancy copies=3",
            needed.example.bucket));
  for (const cluster::MapNode& node : map->nodes()) {
    if (node.state == cluster::NodeState::kGone) continue;
    const auto progress = told.find(node.number);
    if (progress == told.end())
      return make_error(store::kConditionFailed, "node {} is away or does not answer", node.number)
          .with_hint("take one node away at a time: millrace cluster status");
    if (progress->second.clean != map->epoch())
      return make_error(store::kConditionFailed,
                        "node {} has not looked at all its objects since the map changed", node.number)
          .with_hint("wait until it has: millrace cluster status");
  }
  return {};
}

Result<Json> ready_json(const JoinedCluster& joined, const store::Objects& objects) {
  const cluster::Member& member = joined.member;
  const auto map = member.map();
  if (!member.has_lease())
    return make_error(Code::kUnavailable, "this node has no lease, and cannot say what the cluster does")
        .with_hint("ask another node; can this one reach the registry?");
  if (member.leader() == 0)
    return make_error(Code::kUnavailable, "no node leads the cluster: nodes that die stay in the map")
        .with_hint("a node takes the lead within seconds; can the nodes reach the registry?");
  for (const auto& bucket : objects.buckets()) {
    const store::Redundancy& wanted = bucket->settings.redundancy;
    const size_t drives = map->place(0, wanted.slices()).size();
    if (drives >= wanted.floor) continue;
    return make_error(Code::kUnavailable, "bucket {} takes no writes: {} drives serve, and its floor is {}",
                      bucket->name, drives, wanted.floor)
        .with_hint("bring nodes back, or add some: millrace cluster status");
  }
  Json away = Json::array();
  size_t serving = 0;
  for (const cluster::MapNode& node : map->nodes()) {
    serving += node.state == cluster::NodeState::kServing ? 1 : 0;
    if (node.state == cluster::NodeState::kAway) away.push_back(node.number);
  }
  return Json{{"ready", true}, {"epoch", map->epoch()}, {"serving", serving}, {"away", std::move(away)}};
}

Result<Json> where_json(const JoinedCluster& joined, const cluster::ObjectName& name) {
  MR_TRY(joined.cluster.membership().redundancy(name.bucket));
  const auto found = MR_TRY(store::wait_for<std::optional<cluster::FoundObject>>(
      [&](cluster::Done<std::optional<cluster::FoundObject>> done) {
        joined.cluster.find(name, std::move(done));
      }));
  if (!found) return store::no_such_object(name.bucket, name.key);
  const store::Record& record = found->record;
  const auto map = joined.member.map();
  Json json = {{"bucket", name.bucket}, {"key", name.key}};
  json.update(spread_json(*map, record));
  json["version"] = {{"epoch", record.version.epoch}, {"node", record.version.node}};
  json["epoch"] = map->epoch();
  json["home"] = map->home(name_hash(name.bucket, name.key));
  if (!record.upload.empty()) json["parts"] = MR_TRY(parts_json(joined, *map, name.bucket, record));
  return json;
}

Json repairs_json(const JoinedCluster& joined) {
  Json list = Json::array();
  const auto map = joined.member.map();
  for (const cluster::SliceRepair::Repair& repair : joined.cluster.repairs()->recent()) {
    Json json = {{"bucket", repair.name.bucket}, {"key", repair.name.key}};
    const std::string_view of = cluster::real_bucket(repair.name.bucket);
    if (of != repair.name.bucket) json["of_bucket"] = of;
    json["slot"] = repair.slot;
    json["block"] = repair.block;
    json.update(drive_json(*map, repair.drive));
    json["what"] = repair.what;
    json["at"] = format_iso_date(repair.at_ms);
    list.push_back(std::move(json));
  }
  return list;
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
