// Placements of one object under one map and under many.
#include "cluster/places.h"

namespace millrace::cluster {

uint64_t hash_of(const ObjectName& name) {
  return name_hash(name.bucket, name.key);
}

std::vector<DriveId> place_object(const Map& map, const ObjectName& name, const Membership& membership) {
  const auto redundancy = membership.redundancy(name.bucket);
  return map.place(hash_of(name), redundancy ? redundancy->slices() : 1);
}

std::set<DriveId> may_hold(const Maps& maps, const ObjectName& name, const Membership& membership) {
  std::set<DriveId> drives;
  for (const auto& map : maps) {
    for (const DriveId drive : place_object(*map, name, membership)) drives.insert(drive);
  }
  return drives;
}

bool is_settled_since(uint32_t epoch, const Maps& maps, const ObjectName& name,
                      const Membership& membership) {
  const std::vector<DriveId> now = place_object(*maps.back(), name, membership);
  for (const auto& map : maps) {
    if (map->epoch() >= epoch && place_object(*map, name, membership) != now) return false;
  }
  return true;
}

}  // namespace millrace::cluster
