// Where the slices and marks of an object may be, under one map and under all that are open.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "cluster/ledger.h"
#include "cluster/map.h"
#include "cluster/peers.h"

namespace millrace::cluster {

uint64_t hash_of(const ObjectName& name);

// Of a bucket, or of the one that a hidden bucket belongs to, as the map has it.
Result<Redundancy> redundancy_in(const Map& map, const std::string& bucket, const Membership& membership);
// What the object of this record is to have in a bucket of this redundancy: small ones are copies.
Redundancy redundancy_for(const store::Record& record, const Redundancy& whole);
// It was written with another.
bool is_spread_otherwise(const store::Record& record, const Redundancy& whole);
// Objects up to this are kept as copies in buckets of any redundancy.
inline constexpr uint64_t kCopiedBytes = 128 << 10;

// kClosing where the bucket is being removed.
Status check_open(const Membership& membership, const std::string& bucket);
// Whether this was written to a bucket of that name that was removed since. It counts no more.
bool is_of_removed_bucket(const store::Version& version, const std::string& bucket,
                          const Membership& membership);

// The drives that hold an object of this name, in the order of its slices.
std::vector<DriveId> place_object(const Map& map, const ObjectName& name, const Membership& membership);

// All drives that may know something of it: its placements of all open epochs, and those that took slices in
// place of full ones.
std::set<DriveId> may_hold(const Maps& maps, const ObjectName& name, const Membership& membership);

// Whether placement and redundancy are the same in every open map from `epoch` on.
bool is_settled_since(uint32_t epoch, const Maps& maps, const ObjectName& name, const Membership& membership);

}  // namespace millrace::cluster
