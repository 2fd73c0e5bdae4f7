// Compares what is with what was.
#include "node/audit_watch.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::node {

namespace {

using Json = nlohmann::ordered_json;

Json rights_of(const gateway::Key& key) {
  Json rights = Json::array();
  if (key.admin) rights.push_back("admin");
  for (const gateway::Grant& grant : key.grants) {
    const std::string_view may = grant.read && grant.write ? "read-write" : grant.write ? "write" : "read";
    rights.push_back(fmt::format("{}:{}", grant.bucket, may));
  }
  return rights;
}

Json key_line(std::string_view change, const gateway::Key& key) {
  return {{"event", "key"}, {"change", change}, {"key_id", key.access_key}, {"rights", rights_of(key)}};
}

std::string state_of(const cluster::MapDrive& drive) {
  std::string state(cluster::name_of(drive.state));
  return drive.full ? state + ", full" : state;
}

void add_drives(std::vector<Json>& lines, const cluster::MapNode* before, const cluster::MapNode& now) {
  for (const cluster::MapDrive& drive : now.drives) {
    std::string was;
    if (before != nullptr) {
      const auto known = std::ranges::find(before->drives, drive.id, &cluster::MapDrive::id);
      if (known != before->drives.end()) was = state_of(*known);
    }
    if (was == state_of(drive)) continue;
    Json line = {
        {"event", "drive"}, {"drive", drive.id}, {"of_node", now.number}, {"state", state_of(drive)}};
    if (!was.empty()) line["before"] = was;
    lines.push_back(std::move(line));
  }
}

}  // namespace

std::vector<Json> describe_changed_keys(const gateway::KeyRing& before, const gateway::KeyRing& now) {
  std::vector<Json> lines;
  for (const gateway::Key& key : now.keys()) {
    const gateway::Key* const known = before.find(key.access_key);
    if (known == nullptr) {
      lines.push_back(key_line("added", key));
    } else if (rights_of(*known) != rights_of(key) || known->secret_key != key.secret_key) {
      lines.push_back(key_line("changed", key));
    }
  }
  for (const gateway::Key& key : before.keys()) {
    if (now.find(key.access_key) == nullptr) lines.push_back(key_line("removed", key));
  }
  return lines;
}

std::vector<Json> describe_changed_map(const cluster::Map& before, const cluster::Map& now) {
  std::vector<Json> lines;
  for (const cluster::MapNode& node : now.nodes()) {
    const cluster::MapNode* const known = before.find_node(node.number);
    const bool joined = known == nullptr;
    if (joined || known->state != node.state || known->process != node.process) {
      Json line = {{"event", "node"},
                   {"of_node", node.number},
                   {"node_id", node.id},
                   {"address", node.address},
                   {"state", cluster::name_of(node.state)}};
      if (joined) line["change"] = "joined";
      if (!joined && known->state != node.state) line["before"] = cluster::name_of(known->state);
      if (!joined && known->process != node.process) line["change"] = "started";
      line["epoch"] = now.epoch();
      lines.push_back(std::move(line));
    }
    add_drives(lines, known, node);
  }
  return lines;
}

AuditWatch::AuditWatch(gateway::Audit& audit, Watched watched)
    : audit_(audit), watched_(std::move(watched)), keys_(watched_.keys.current()) {
  constexpr std::chrono::milliseconds kEvery{1000};
  if (watched_.map) map_ = watched_.map();
  audit_.note({{"event", "start"}});
  looks_.start(kEvery, [this] { look(); });
}

void AuditWatch::look() {
  const auto keys = watched_.keys.current();
  if (keys != keys_) {
    for (Json& line : describe_changed_keys(*keys_, *keys)) audit_.note(std::move(line));
    keys_ = keys;
  }
  const auto map = watched_.map ? watched_.map() : nullptr;
  if (map == nullptr || map == map_) return;
  if (map_ != nullptr) {
    for (Json& line : describe_changed_map(*map_, *map)) audit_.note(std::move(line));
  }
  map_ = map;
}

void AuditWatch::stop() {
  if (std::exchange(stopped_, true)) return;
  looks_.stop();
  look();
  audit_.note({{"event", "stop"}});
}

}  // namespace millrace::node
