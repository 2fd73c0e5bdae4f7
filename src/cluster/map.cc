// Maps as placements and as JSON (docs/formats/registry.md).
#include "cluster/map.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "cluster/stripe.h"

namespace millrace::cluster {

namespace {

using Json = nlohmann::ordered_json;
constexpr int kFormat = 1;
// With changed redundancies, which a node must not overlook.
constexpr int kFormatWithRedundancies = 2;
constexpr size_t kMaxNodes = 100'000;
constexpr std::array<std::string_view, 4> kStates = {"serving", "draining", "away", "gone"};

Error broken(std::string_view why) {
  return make_error(Code::kCorrupt, "map: {}", why);
}

template <typename State>
State parse_state(const Json& json) {
  const auto found = std::ranges::find(kStates, json.at("state").get_ref<const std::string&>());
  if (found == kStates.end()) throw std::invalid_argument("a state is unknown");
  return static_cast<State>(found - kStates.begin());
}

MapNode parse_node(const Json& json) {
  MapNode node;
  node.id = json.at("id").get<std::string>();
  node.number = json.at("number").get<uint32_t>();
  node.process = json.at("process").get<std::string>();
  node.address = json.at("address").get<std::string>();
  node.tls = json.value("tls", false);
  node.zone = json.value("zone", "");
  node.state = parse_state<NodeState>(json);
  node.since_ms = json.value("since_ms", int64_t{0});
  for (const Json& entry : json.at("drives")) {
    MapDrive drive;
    drive.id = entry.at("id").get<std::string>();
    drive.weight = entry.at("weight").get<double>();
    drive.state = parse_state<DriveStanding>(entry);
    drive.full = entry.value("full", false);
    if (!(drive.weight > 0)) throw std::invalid_argument("a drive's weight is not above zero");
    node.drives.push_back(std::move(drive));
  }
  return node;
}

uint8_t parse_count(const Json& json, uint8_t least, uint64_t most) {
  const auto count = json.get<uint64_t>();
  if (count < least || count > most) throw std::invalid_argument("a redundancy is impossible");
  return static_cast<uint8_t>(count);
}

ChangedRedundancy parse_redundancy(const Json& json) {
  ChangedRedundancy changed;
  changed.bucket = json.at("bucket").get<std::string>();
  changed.epoch = json.at("epoch").get<uint32_t>();
  store::Redundancy& redundancy = changed.redundancy;
  redundancy.k = parse_count(json.at("k"), 1, kMaxDataSlices);
  redundancy.m = parse_count(json.at("m"), 0, kMaxParitySlices);
  redundancy.floor = parse_count(json.at("floor"), redundancy.k, redundancy.slices());
  return changed;
}

}  // namespace

DriveId MapDrive::hash() const {
  return hash64(id);
}

Map::Map(std::string cluster, uint32_t epoch, uint32_t oldest_open, std::vector<MapNode> nodes,
         std::vector<ChangedRedundancy> redundancies)
    : cluster_(std::move(cluster)),
      epoch_(epoch),
      oldest_open_(oldest_open),
      nodes_(std::move(nodes)),
      redundancies_(std::move(redundancies)) {
  std::ranges::sort(redundancies_, {}, &ChangedRedundancy::bucket);
  std::map<std::string, uint32_t> zones;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const MapNode& node = nodes_[i];
    const uint32_t zone = zones.emplace(node.zone, zones.size()).first->second;
    for (const MapDrive& drive : node.drives) {
      const DriveId id = drive.hash();
      const bool drive_alive =
          drive.state == DriveStanding::kServing || drive.state == DriveStanding::kDraining;
      owners_.push_back({id, i, node.is_alive() && drive_alive});
      if (node.state != NodeState::kServing || drive.state != DriveStanding::kServing) continue;
      const PlacedDrive placed{{id, drive.weight}, static_cast<uint32_t>(i), zone};
      for (Choice* choice : {&placed_, &with_room_}) {
        if (drive.full && choice == &with_room_) continue;
        choice->drives.push_back(placed);
        choice->ids.push_back(id);
      }
    }
  }
  std::ranges::sort(owners_, {}, &Owner::drive);
}

const MapNode* Map::find_node(std::string_view id) const {
  const auto found = std::ranges::find(nodes_, id, &MapNode::id);
  return found == nodes_.end() ? nullptr : &*found;
}

const MapNode* Map::find_node(uint32_t number) const {
  const auto found = std::ranges::find(nodes_, number, &MapNode::number);
  return found == nodes_.end() ? nullptr : &*found;
}

const MapNode* Map::node_of(DriveId drive) const {
  const auto found = std::ranges::lower_bound(owners_, drive, {}, &Owner::drive);
  return found == owners_.end() || found->drive != drive ? nullptr : &nodes_[found->node];
}

bool Map::is_alive(DriveId drive) const {
  const auto found = std::ranges::lower_bound(owners_, drive, {}, &Owner::drive);
  return found != owners_.end() && found->drive == drive && found->alive;
}

std::vector<DriveId> Map::Choice::place(uint64_t name, size_t count) const {
  std::vector<DriveId> holders;
  for (const size_t position : place_holders(name, drives, count)) holders.push_back(ids[position]);
  return holders;
}

std::vector<DriveId> Map::place(uint64_t name, size_t count) const {
  return placed_.place(name, count);
}

std::vector<DriveId> Map::place_new(uint64_t name, size_t count) const {
  return with_room_.place(name, count);
}

bool Map::places_like(const Map& other) const {
  return placed_ == other.placed_ && with_room_ == other.with_room_ && redundancies_ == other.redundancies_;
}

store::Redundancy Map::redundancy_of(std::string_view bucket, const store::Redundancy& made) const {
  const auto changed = std::ranges::lower_bound(redundancies_, bucket, {}, &ChangedRedundancy::bucket);
  if (changed == redundancies_.end() || changed->bucket != bucket || changed->epoch <= made.since)
    return made;
  store::Redundancy redundancy = changed->redundancy;
  redundancy.since = made.since;
  return redundancy;
}

uint32_t Map::home(uint64_t name) const {
  const std::vector<size_t> first = place_holders(name, placed_.drives, 1);
  return first.empty() ? 0 : nodes_[placed_.drives[first.front()].node].number;
}

std::string encode_map(const Map& map) {
  Json nodes = Json::array();
  for (const MapNode& node : map.nodes()) {
    Json drives = Json::array();
    for (const MapDrive& drive : node.drives) {
      drives.push_back({{"id", drive.id}, {"weight", drive.weight}, {"state", name_of(drive.state)}});
      if (drive.full) drives.back()["full"] = true;
    }
    Json entry = {{"id", node.id},
                  {"number", node.number},
                  {"process", node.process},
                  {"address", node.address},
                  {"zone", node.zone},
                  {"state", name_of(node.state)},
                  {"since_ms", node.since_ms},
                  {"drives", std::move(drives)}};
    if (node.tls) entry["tls"] = true;
    nodes.push_back(std::move(entry));
  }
  Json json = {{"format", map.redundancies().empty() ? kFormat : kFormatWithRedundancies},
               {"cluster", map.cluster()},
               {"epoch", map.epoch()},
               {"oldest_open", map.oldest_open()},
               {"nodes", std::move(nodes)}};
  for (const ChangedRedundancy& changed : map.redundancies()) {
    const store::Redundancy& redundancy = changed.redundancy;
    json["redundancies"].push_back({{"bucket", changed.bucket},
                                    {"epoch", changed.epoch},
                                    {"k", redundancy.k},
                                    {"m", redundancy.m},
                                    {"floor", redundancy.floor}});
  }
  return json.dump();
}

Result<Map> decode_map(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return broken("it is not JSON");
  try {
    const int format = json.at("format").get<int>();
    if (format != kFormat && format != kFormatWithRedundancies)
      return make_error(Code::kUnsupported, "map: unknown format").with_hint("update this node");
    std::vector<MapNode> nodes;
    if (json.at("nodes").size() > kMaxNodes) return broken("it has too many nodes");
    for (const Json& node : json.at("nodes")) nodes.push_back(parse_node(node));
    const auto epoch = json.at("epoch").get<uint32_t>();
    const auto oldest = json.at("oldest_open").get<uint32_t>();
    if (oldest > epoch) return broken("its oldest open epoch is yet to come");
    std::vector<ChangedRedundancy> redundancies;
    if (format == kFormatWithRedundancies) {
      for (const Json& changed : json.at("redundancies")) redundancies.push_back(parse_redundancy(changed));
    }
    return Map(json.at("cluster").get<std::string>(), epoch, oldest, std::move(nodes),
               std::move(redundancies));
  } catch (const std::exception& error) {
    return broken(error.what());
  }
}

std::string_view name_of(NodeState state) {
  return kStates[static_cast<size_t>(state)];
}
std::string_view name_of(DriveStanding state) {
  return kStates[static_cast<size_t>(state)];
}

}  // namespace millrace::cluster
