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

// The drives that hold an object of this name, in the order of its slices.
std::vector<DriveId> place_object(const Map& map, const ObjectName& name, const Membership& membership);

// All drives that may know something of it: its placements of all open epochs.
std::set<DriveId> may_hold(const Maps& maps, const ObjectName& name, const Membership& membership);

// Whether the placement is the same in every open map from `epoch` on.
bool is_settled_since(uint32_t epoch, const Maps& maps, const ObjectName& name, const Membership& membership);

}  // namespace millrace::cluster
