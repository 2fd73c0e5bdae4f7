// Placements of one object under one map and under many.
#include "cluster/places.h"

#include "cluster/hidden_bucket.h"
#include "cluster/reasons.h"

namespace millrace::cluster {

uint64_t hash_of(const ObjectName& name) {
  return name_hash(name.bucket, name.key);
}

Result<Redundancy> redundancy_in(const Map& map, const std::string& bucket, const Membership& membership) {
  const Redundancy made = MR_TRY(membership.redundancy(bucket));
  return map.redundancy_of(real_bucket(bucket), made);
}

Redundancy redundancy_for(const store::Record& record, const Redundancy& whole) {
  // An object of parts has no bytes of its own.
  return record.size <= kCopiedBytes || !record.upload.empty() ? whole.small() : whole;
}

bool is_spread_otherwise(const store::Record& record, const Redundancy& whole) {
  const Redundancy wanted = redundancy_for(record, whole);
  return !record.deleted && (record.spread.k != wanted.k || record.spread.m != wanted.m);
}

Status check_open(const Membership& membership, const std::string& bucket) {
  if (!membership.is_closing(bucket)) return {};
  return make_error(kClosing, "bucket {} is being removed", bucket)
      .with_hint("if nobody removes it any more, make it again: it keeps what it has");
}

bool is_of_removed_bucket(const store::Version& version, const std::string& bucket,
                          const Membership& membership) {
  const auto made = membership.redundancy(bucket);
  return made && version.epoch < made->since;
}

std::vector<DriveId> place_object(const Map& map, const ObjectName& name, const Membership& membership) {
  const auto redundancy = redundancy_in(map, name.bucket, membership);
  return map.place(hash_of(name), redundancy ? redundancy->slices() : 1);
}

std::set<DriveId> may_hold(const Maps& maps, const ObjectName& name, const Membership& membership) {
  std::set<DriveId> drives;
  for (const auto& map : maps) {
    for (const DriveId drive : place_object(*map, name, membership)) drives.insert(drive);
    if (!map->has_full_drives()) continue;
    const auto redundancy = redundancy_in(*map, name.bucket, membership);
    for (const DriveId drive : map->place_new(hash_of(name), redundancy ? redundancy->slices() : 1))
      drives.insert(drive);
  }
  return drives;
}

bool is_settled_since(uint32_t epoch, const Maps& maps, const ObjectName& name,
                      const Membership& membership) {
  const Map& newest = *maps.back();
  const auto redundancy = redundancy_in(newest, name.bucket, membership);
  const std::vector<DriveId> now = place_object(newest, name, membership);
  for (const auto& map : maps) {
    if (map->epoch() < epoch) continue;
    const auto then = redundancy_in(*map, name.bucket, membership);
    if (!redundancy || !then || then->k != redundancy->k) return false;
    if (place_object(*map, name, membership) != now) return false;
  }
  return true;
}

}  // namespace millrace::cluster
