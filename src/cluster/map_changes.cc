// Makes the next map of one, and writes it by compare-and-swap.
#include "cluster/map_changes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/number.h"

namespace millrace::cluster {

namespace {

// Of change_map: each attempt that fails is somebody else's that succeeded.
constexpr int kMostAttempts = 100;
constexpr std::string_view kMaps = "maps/";
constexpr size_t kMostRedundancies = 10'000;  // of buckets that were changed; every map lists them

Changed unchanged() {
  return std::optional<Map>();
}

Changed next(const Map& map, std::vector<MapNode> nodes) {
  if (nodes == map.nodes()) return unchanged();
  return std::optional<Map>(
      Map(map.cluster(), map.epoch() + 1, map.oldest_open(), std::move(nodes), map.redundancies()));
}

MapNode* find(std::vector<MapNode>& nodes, const std::string& id) {
  const auto found = std::ranges::find(nodes, id, &MapNode::id);
  return found == nodes.end() ? nullptr : &*found;
}

void set_state(MapNode& node, NodeState state, int64_t wall_ms) {
  if (node.state == state) return;
  node.state = state;
  node.since_ms = wall_ms;
}

Error no_such_node(const std::string& node) {
  return make_error(Code::kNotFound, "the cluster has no node {}", node);
}

// What the node says, and what the map knew of its drives: a drive that drains goes on draining. One that is
// gone stays gone: it missed removals that nobody remembers any more.
std::vector<MapDrive> merge_drives(const std::vector<MapDrive>& before, std::vector<MapDrive> now) {
  std::erase_if(now, [&](const MapDrive& drive) {
    return drive.state == DriveStanding::kGone &&
           std::ranges::find(before, drive.id, &MapDrive::id) == before.end();
  });
  for (MapDrive& drive : now) {
    const auto known = std::ranges::find(before, drive.id, &MapDrive::id);
    if (known == before.end()) continue;
    if (known->state == DriveStanding::kGone ||
        (known->state == DriveStanding::kDraining && drive.state == DriveStanding::kServing))
      drive.state = known->state;
  }
  for (const MapDrive& known : before) {
    if (std::ranges::find(now, known.id, &MapDrive::id) != now.end()) continue;
    now.push_back(known);
    if (known.state != DriveStanding::kGone) now.back().state = DriveStanding::kAway;
  }
  std::ranges::sort(now, {}, &MapDrive::id);
  return now;
}

// It was told to drain, even if it was away since: its drives remember.
bool is_to_drain(const MapNode& node) {
  const auto has = [&](DriveStanding state) {
    return std::ranges::find(node.drives, state, &MapDrive::state) != node.drives.end();
  };
  return node.state == NodeState::kDraining ||
         (has(DriveStanding::kDraining) && !has(DriveStanding::kServing));
}

void drain_drives(MapNode& node) {
  for (MapDrive& drive : node.drives) {
    if (drive.state == DriveStanding::kServing) drive.state = DriveStanding::kDraining;
  }
}

bool is_served(const MapNode& node, const MapDrive& drive) {
  return node.is_alive() &&
         (drive.state == DriveStanding::kServing || drive.state == DriveStanding::kDraining);
}

// Drives that changed places between nodes.
Status take_from_others(std::vector<MapNode>& nodes, const MapNode& node) {
  for (MapNode& other : nodes) {
    if (other.id == node.id) continue;
    for (const MapDrive& drive : node.drives) {
      const auto had = std::ranges::find(other.drives, drive.id, &MapDrive::id);
      if (had == other.drives.end() || drive.state == DriveStanding::kGone) continue;
      if (is_served(other, *had))
        return make_error(kServedElsewhere, "drive {} is served by node {}", drive.id, other.number)
            .with_hint("a copy of a drive cannot be served beside it");
      if (had->state == DriveStanding::kGone)
        return make_error(Code::kDenied, "drive {} was removed from the cluster", drive.id)
            .with_hint("to use it again, empty its directory: it is a new drive then");
      other.drives.erase(had);
    }
  }
  return {};
}

std::string name_of_map(uint32_t epoch) {
  return fmt::format("{}{}", kMaps, epoch);
}

}  // namespace

Changed with_node(const Map& map, const MapNode& node, int64_t wall_ms) {
  std::vector<MapNode> nodes = map.nodes();
  MapNode* known = find(nodes, node.id);
  if (known == nullptr) {
    uint32_t highest = 0;
    for (const MapNode& other : nodes) highest = std::max(highest, other.number);
    known = &nodes.emplace_back();
    known->id = node.id;
    known->number = highest + 1;
    known->state = NodeState::kAway;
  }
  if (known->state == NodeState::kGone)
    return make_error(Code::kDenied, "node {} was removed from the cluster", node.id)
        .with_hint("to use the machine again, start it as a new node, with an empty directory");
  MR_TRY(take_from_others(nodes, node));
  const bool drains = is_to_drain(*known);
  known->process = node.process;
  known->address = node.address;
  known->tls = node.tls;
  known->zone = node.zone;
  known->drives = merge_drives(known->drives, node.drives);
  if (drains) drain_drives(*known);
  set_state(*known, drains ? NodeState::kDraining : NodeState::kServing, wall_ms);
  return next(map, std::move(nodes));
}

Changed with_left(const Map& map, const std::string& process, int64_t wall_ms) {
  std::vector<MapNode> nodes = map.nodes();
  for (MapNode& node : nodes) {
    if (node.is_alive() && node.process == process) set_state(node, NodeState::kAway, wall_ms);
  }
  return next(map, std::move(nodes));
}

Changed with_living(const Map& map, const std::set<std::string>& processes, int64_t wall_ms) {
  std::vector<MapNode> nodes = map.nodes();
  for (MapNode& node : nodes) {
    if (node.is_alive() && !processes.contains(node.process)) set_state(node, NodeState::kAway, wall_ms);
  }
  return next(map, std::move(nodes));
}

Changed with_drained(const Map& map, const std::string& node, int64_t wall_ms) {
  std::vector<MapNode> nodes = map.nodes();
  MapNode* const known = find(nodes, node);
  if (known == nullptr) return no_such_node(node);
  if (known->state == NodeState::kGone) return unchanged();
  // The drives too: so it is not forgotten while the node is away.
  drain_drives(*known);
  if (known->state == NodeState::kServing) set_state(*known, NodeState::kDraining, wall_ms);
  return next(map, std::move(nodes));
}

Changed with_removed(const Map& map, const std::string& node, int64_t wall_ms) {
  std::vector<MapNode> nodes = map.nodes();
  MapNode* const known = find(nodes, node);
  if (known == nullptr) return no_such_node(node);
  if (known->state == NodeState::kServing)
    return make_error(Code::kInvalid, "node {} serves: it is not removed", node)
        .with_hint("drain it first, or stop it if its drives are lost");
  set_state(*known, NodeState::kGone, wall_ms);
  for (MapDrive& drive : known->drives) drive.state = DriveStanding::kGone;
  return next(map, std::move(nodes));
}

Changed with_closed(const Map& map, uint32_t oldest_open) {
  const bool is_only = oldest_open == map.oldest_open() && oldest_open == map.epoch();
  if (oldest_open <= map.oldest_open() && !is_only) return unchanged();
  if (oldest_open > map.epoch())
    return make_error(Code::kInvalid, "epoch {} is yet to come: the newest is {}", oldest_open, map.epoch());
  return std::optional<Map>(
      Map(map.cluster(), map.epoch() + 1, oldest_open, map.nodes(), map.redundancies()));
}

Changed with_next_epoch(const Map& map) {
  return std::optional<Map>(
      Map(map.cluster(), map.epoch() + 1, map.oldest_open(), map.nodes(), map.redundancies()));
}

Changed with_redundancy(const Map& map, const std::string& bucket, const store::Redundancy& made,
                        const store::Redundancy& wanted) {
  const store::Redundancy now = map.redundancy_of(bucket, made);
  if (now.k == wanted.k && now.m == wanted.m && now.floor == wanted.floor) return unchanged();
  std::vector<ChangedRedundancy> redundancies = map.redundancies();
  std::erase_if(redundancies, [&](const ChangedRedundancy& changed) { return changed.bucket == bucket; });
  if (redundancies.size() >= kMostRedundancies)
    return make_error(Code::kTooLarge, "the redundancy of {} buckets was changed already", kMostRedundancies)
        .with_hint("make a bucket with the redundancy that you want, and copy: millrace cp");
  redundancies.push_back({bucket, map.epoch() + 1, {wanted.k, wanted.m, wanted.floor}});
  return std::optional<Map>(
      Map(map.cluster(), map.epoch() + 1, map.oldest_open(), map.nodes(), std::move(redundancies)));
}

std::optional<uint32_t> find_closable(const Maps& maps, const std::map<std::string, Walked>& by_node,
                                      Calm calm) {
  const Map& newest = *maps.back();
  uint32_t walked = newest.epoch();
  uint64_t tombstones = 0;
  for (const MapNode& node : newest.nodes()) {
    if (node.state == NodeState::kGone) continue;
    const bool away = std::ranges::any_of(node.drives, [&](const MapDrive& drive) {
      return drive.state != DriveStanding::kGone && !newest.is_alive(drive.hash());
    });
    const auto told = by_node.find(node.id);
    if (away || told == by_node.end()) return std::nullopt;
    walked = std::min(walked, told->second.epoch);
    tombstones += told->second.tombstones;
  }
  if (walked < newest.oldest_open()) return std::nullopt;
  const bool placed_otherwise = std::ranges::any_of(
      maps, [&](const auto& map) { return map->epoch() < walked && !map->places_like(newest); });
  const bool is_tidying = calm == Calm::kQuiet && tombstones > 0;
  return placed_otherwise || is_tidying ? std::optional(walked) : std::nullopt;
}

Result<std::optional<KnownMap>> read_map(Registry& registry) {
  const auto entry = MR_TRY(registry.get("map"));
  if (!entry) return std::optional<KnownMap>();
  Map map = MR_TRY(decode_map(entry->value));
  return std::optional<KnownMap>(KnownMap{std::make_shared<const Map>(std::move(map)), entry->revision});
}

namespace {

// Its epoch may have been closed since the newest map was read: then that is to be read again.
Error missing_map(Registry& registry, const KnownMap& newest, uint32_t epoch) {
  const auto now = read_map(registry);
  if (!now) return now.error().copy();
  if (*now && (*now)->revision != newest.revision)
    return make_error(Code::kUnavailable, "the map changed while it was read");
  return make_error(Code::kCorrupt, "the registry has lost the map of epoch {}, which is open", epoch);
}

}  // namespace

Result<std::shared_ptr<const Maps>> read_open_maps(Registry& registry, const KnownMap& newest,
                                                   const Maps* known) {
  auto maps = std::make_shared<Maps>();
  for (uint32_t epoch = newest.map->oldest_open(); epoch < newest.map->epoch(); ++epoch) {
    if (epoch == 0) continue;
    // They are consecutive.
    const uint32_t first = known != nullptr ? known->front()->epoch() : 0;
    if (known != nullptr && epoch >= first && epoch - first < known->size()) {
      maps->push_back((*known)[epoch - first]);
      continue;
    }
    const auto entry = MR_TRY(registry.get(name_of_map(epoch)));
    if (!entry) return missing_map(registry, newest, epoch);
    Map map = MR_TRY(decode_map(entry->value));
    if (map.epoch() != epoch) return make_error(Code::kCorrupt, "maps/{} is of epoch {}", epoch, map.epoch());
    maps->push_back(std::make_shared<const Map>(std::move(map)));
  }
  maps->push_back(newest.map);
  return std::shared_ptr<const Maps>(std::move(maps));
}

Result<std::optional<KnownMap>> replace_map(Registry& registry, const KnownMap& before, const Map& next) {
  if (before.map) {
    const std::string name = name_of_map(before.map->epoch());
    // Where somebody else has put it aside meanwhile, it is the same one: an epoch has one map.
    if (!MR_TRY(registry.get(name))) MR_TRY(registry.swap(name, 0, encode_map(*before.map)));
  }
  const auto revision = MR_TRY(registry.swap("map", before.revision, encode_map(next)));
  if (!revision) return std::optional<KnownMap>();
  return std::optional<KnownMap>(KnownMap{std::make_shared<const Map>(next), *revision});
}

Status forget_closed_maps(Registry& registry, const Map& newest) {
  for (const Entry& entry : MR_TRY(registry.list(std::string(kMaps)))) {
    const auto epoch = parse_number<uint32_t>(std::string_view(entry.name).substr(kMaps.size()));
    if (epoch && *epoch < newest.oldest_open()) MR_TRY(registry.remove(entry.name, entry.revision));
  }
  return {};
}

Result<KnownMap> change_map(Registry& registry, const std::function<Changed(const Map&)>& change) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    auto before = MR_TRY(read_map(registry));
    if (!before) return make_error(Code::kNotFound, "the cluster has no map: no node has joined yet");
    const auto changed = MR_TRY(change(*before->map));
    if (!changed) return std::move(*before);
    auto replaced = MR_TRY(replace_map(registry, *before, *changed));
    if (replaced) return std::move(*replaced);
  }
  return make_error(Code::kUnavailable, "the map changed {} times meanwhile", kMostAttempts);
}

}  // namespace millrace::cluster
