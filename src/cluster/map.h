// Map: which nodes and drives a cluster has, and in which state. Its number is the epoch.
//
// A map never changes: each change makes a new one with the next epoch (cluster/member.h). The registry keeps
// the newest, and every older one whose epoch is open: objects may still lie where that map put them. Pure
// data; whoever knows the same map places the same object on the same drives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/rendezvous.h"
#include "base/result.h"
#include "cluster/placement.h"
#include "store/bucket.h"

namespace millrace::cluster {

using DriveId = uint64_t;  // hash of the drive's id, as records hold it

inline bool contains(const std::vector<DriveId>& drives, DriveId drive) {
  return std::ranges::find(drives, drive) != drives.end();
}

enum class NodeState : uint8_t {
  kServing,   // it has its lease
  kDraining,  // the same, but it gets no new slices and its slices move to others
  kAway,      // its lease ended; it may come back with its slices
  kGone,      // it will not come back
};

// A drive that is not in service is away, whatever its node is.
enum class DriveStanding : uint8_t { kServing, kDraining, kAway, kGone };

struct MapDrive {
  std::string id;  // text, unique in the cluster
  double weight = 1.0;
  DriveStanding state = DriveStanding::kServing;
  bool full = false;  // or nearly: it keeps what it has, takes marks, and gets no new slices
  bool operator==(const MapDrive&) const = default;

  DriveId hash() const;
};

struct MapNode {
  std::string id;       // text, unique in the cluster
  uint32_t number = 0;  // from 1, never used again; the node of a version
  std::string process;  // drawn at each start: a node that starts again never acts in an epoch of before
  std::string address;  // host:port, for clients and other nodes
  bool tls = false;     // it speaks TLS there
  std::string zone;     // empty: none
  NodeState state = NodeState::kServing;
  int64_t since_ms = 0;  // wall time of the state, to be shown only
  std::vector<MapDrive> drives;
  bool operator==(const MapNode&) const = default;

  // It acts and answers.
  bool is_alive() const { return state == NodeState::kServing || state == NodeState::kDraining; }
};

// A bucket's redundancy was changed while it held objects. Its objects are encoded anew one by one, so every
// map says what was so in its epoch.
struct ChangedRedundancy {
  std::string bucket;
  uint32_t epoch = 0;  // of the change; a bucket that was made later has only the name in common
  store::Redundancy redundancy;
  bool operator==(const ChangedRedundancy&) const = default;
};

class Map {
 public:
  Map() = default;
  Map(std::string cluster, uint32_t epoch, uint32_t oldest_open, std::vector<MapNode> nodes,
      std::vector<ChangedRedundancy> redundancies = {});

  const std::string& cluster() const { return cluster_; }
  uint32_t epoch() const { return epoch_; }
  // Maps from this epoch on may still have put objects where they lie.
  uint32_t oldest_open() const { return oldest_open_; }
  const std::vector<MapNode>& nodes() const { return nodes_; }
  const std::vector<ChangedRedundancy>& redundancies() const { return redundancies_; }
  // That of a bucket, which was made with `made`.
  store::Redundancy redundancy_of(std::string_view bucket, const store::Redundancy& made) const;

  const MapNode* find_node(std::string_view id) const;
  const MapNode* find_node(uint32_t number) const;
  // Null where no node of this map has the drive.
  const MapNode* node_of(DriveId drive) const;
  // The drive and its node are alive.
  bool is_alive(DriveId drive) const;
  // The first `count` drives that hold an object of this name (name_hash), in the order of its slices: those
  // that serve, on nodes that serve. Fewer where there are fewer.
  std::vector<DriveId> place(uint64_t name, size_t count) const;
  // Where new slices of the object go: the same without drives that are full, whose turn others take.
  std::vector<DriveId> place_new(uint64_t name, size_t count) const;
  bool has_full_drives() const { return with_room_.ids.size() < placed_.ids.size(); }
  // Every object has the same placement, place for new slices and redundancy under both maps.
  bool places_like(const Map& other) const;
  // The node of the first holder; 0 where there is none.
  uint32_t home(uint64_t name) const;

 private:
  struct Owner {
    DriveId drive = 0;
    size_t node = 0;  // position in nodes_
    bool alive = false;
  };

  struct Choice {
    std::vector<PlacedDrive> drives;
    std::vector<DriveId> ids;  // at the same positions
    bool operator==(const Choice&) const = default;
    std::vector<DriveId> place(uint64_t name, size_t count) const;
  };

  std::string cluster_;
  uint32_t epoch_ = 0;
  uint32_t oldest_open_ = 0;
  std::vector<MapNode> nodes_;
  std::vector<ChangedRedundancy> redundancies_;  // by bucket
  std::vector<Owner> owners_;                    // by drive
  Choice placed_;                                // those that serve
  Choice with_room_;                             // those of them that are not full
};

// The newest map and the older ones that are open, by epoch, the newest last. Never empty.
using Maps = std::vector<std::shared_ptr<const Map>>;

std::string encode_map(const Map& map);
Result<Map> decode_map(std::string_view text);

std::string_view name_of(NodeState state);
std::string_view name_of(DriveStanding state);

}  // namespace millrace::cluster
