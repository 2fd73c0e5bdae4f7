// Changes of the map: pure functions from one map to the next, and the loop that brings one into the
// registry.
//
// Every change makes the next epoch. Before the registry's newest map is replaced, it is put aside under
// maps/EPOCH, so that whoever sees an epoch finds all open ones before it. Nodes that are gone stay listed:
// their numbers are never given again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "cluster/map.h"
#include "cluster/registry.h"

namespace millrace::cluster {

// A map as the registry has it.
struct KnownMap {
  std::shared_ptr<const Map> map;
  uint64_t revision = 0;
};

// The next map, or nothing where all is as it should be.
using Changed = Result<std::optional<Map>>;

// The node as it says it is: new, returned, with another address or other drives. Its number is kept, or
// given where it has none; drives of before that it does not name are away. A drive that another node had,
// and does not serve, is this node's from now on, with what is on it. It drains on if it was draining.
// kDenied: it was removed for good. kServedElsewhere: another node serves one of its drives, for all that the
// map knows.
inline constexpr Reason kServedElsewhere{Code::kExists, "drive served elsewhere"};
Changed with_node(const Map& map, const MapNode& node, int64_t wall_ms);
// The node's process ends and says so: it is away at once, as if its lease had ended.
Changed with_left(const Map& map, const std::string& process, int64_t wall_ms);
// Calls nodes away that are alive in the map and not among these processes.
Changed with_living(const Map& map, const std::set<std::string>& processes, int64_t wall_ms);
// No new slices go to the node, and those that it has move to others.
Changed with_drained(const Map& map, const std::string& node, int64_t wall_ms);
// For good. kInvalid: the node serves; it must be drained or stopped first.
Changed with_removed(const Map& map, const std::string& node, int64_t wall_ms);
// Objects of the bucket, which was made with `made`, are to have this redundancy from now on.
Changed with_redundancy(const Map& map, const std::string& bucket, const store::Redundancy& made,
                        const store::Redundancy& wanted);
// Epochs before this one are closed: every object lies where a later map puts it. If it is the newest and the
// only one that is open, the next one begins, so that it can be closed later.
Changed with_closed(const Map& map, uint32_t oldest_open);

// Nothing changes but the epoch.
Changed with_next_epoch(const Map& map);

// What a node said about its last walk (cluster/walker.h).
struct Walked {
  uint32_t epoch = 0;  // all that its drives know lies where the map of this epoch puts it
  uint64_t tombstones = 0;
};
// The epoch before which all can be closed, if that is of use: an older map places objects otherwise, or
// `quiet` (the newest map is there for long) and there are tombstones, which go with their epoch. Nothing is
// closed while a node or drive is away: it may come back with what only the maps of before say where to look
// for.
enum class Calm : uint8_t { kRecent, kQuiet };
std::optional<uint32_t> find_closable(const Maps& maps, const std::map<std::string, Walked>& by_node,
                                      Calm calm);

// The newest map; nothing where there is none yet.
Result<std::optional<KnownMap>> read_map(Registry& registry);
// The open maps that end with this one. Those that are known already (may be null) are not read again.
Result<std::shared_ptr<const Maps>> read_open_maps(Registry& registry, const KnownMap& newest,
                                                   const Maps* known);
// Replaces the map. Nothing: somebody was faster.
Result<std::optional<KnownMap>> replace_map(Registry& registry, const KnownMap& before, const Map& next);
// Removes maps whose epochs are closed.
Status forget_closed_maps(Registry& registry, const Map& newest);
// Reads, changes and replaces until nobody is faster. The newest map then.
Result<KnownMap> change_map(Registry& registry, const std::function<Changed(const Map&)>& change);

}  // namespace millrace::cluster
