// Maps as placements and as JSON (docs/formats/registry.md).
#include "cluster/map.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace millrace::cluster {

namespace {

using Json = nlohmann::ordered_json;
constexpr int kFormat = 1;
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
  node.zone = json.value("zone", "");
  node.state = parse_state<NodeState>(json);
  node.since_ms = json.value("since_ms", int64_t{0});
  for (const Json& entry : json.at("drives")) {
    MapDrive drive;
    drive.id = entry.at("id").get<std::string>();
    drive.weight = entry.at("weight").get<double>();
    drive.state = parse_state<DriveStanding>(entry);
    if (!(drive.weight > 0)) throw std::invalid_argument("a drive's weight is not above zero");
    node.drives.push_back(std::move(drive));
  }
  return node;
}

}  // namespace

DriveId MapDrive::hash() const {
  return hash64(id);
}

Map::Map(std::string cluster, uint32_t epoch, uint32_t oldest_open, std::vector<MapNode> nodes)
    : cluster_(std::move(cluster)), epoch_(epoch), oldest_open_(oldest_open), nodes_(std::move(nodes)) {
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
      placed_.push_back({{id, drive.weight}, static_cast<uint32_t>(i), zone});
      placed_ids_.push_back(id);
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

std::vector<DriveId> Map::place(uint64_t name, size_t count) const {
  std::vector<DriveId> holders;
  for (const size_t position : place_holders(name, placed_, count)) holders.push_back(placed_ids_[position]);
  return holders;
}

uint32_t Map::home(uint64_t name) const {
  const std::vector<size_t> first = place_holders(name, placed_, 1);
  return first.empty() ? 0 : nodes_[placed_[first.front()].node].number;
}

std::string encode_map(const Map& map) {
  Json nodes = Json::array();
  for (const MapNode& node : map.nodes()) {
    Json drives = Json::array();
    for (const MapDrive& drive : node.drives) {
      drives.push_back({{"id", drive.id}, {"weight", drive.weight}, {"state", name_of(drive.state)}});
    }
    nodes.push_back({{"id", node.id},
                     {"number", node.number},
                     {"process", node.process},
                     {"address", node.address},
                     {"zone", node.zone},
                     {"state", name_of(node.state)},
                     {"since_ms", node.since_ms},
                     {"drives", std::move(drives)}});
  }
  return Json{{"format", kFormat},
              {"cluster", map.cluster()},
              {"epoch", map.epoch()},
              {"oldest_open", map.oldest_open()},
              {"nodes", std::move(nodes)}}
      .dump();
}

Result<Map> decode_map(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return broken("it is not JSON");
  try {
    if (json.at("format").get<int>() != kFormat)
      return make_error(Code::kUnsupported, "map: unknown format").with_hint("update this node");
    std::vector<MapNode> nodes;
    if (json.at("nodes").size() > kMaxNodes) return broken("it has too many nodes");
    for (const Json& node : json.at("nodes")) nodes.push_back(parse_node(node));
    const auto epoch = json.at("epoch").get<uint32_t>();
    const auto oldest = json.at("oldest_open").get<uint32_t>();
    if (oldest > epoch) return broken("its oldest open epoch is yet to come");
    return Map(json.at("cluster").get<std::string>(), epoch, oldest, std::move(nodes));
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
