// Needed objects: those that would be below their bucket's floor if this node went away.
#pragma once

#include <cstdint>

#include "cluster/cluster.h"

namespace millrace::cluster {

struct NeededObjects {
  uint64_t count = 0;
  ObjectName example;
};

// Looks at all that this node's drives hold now. Blocks: on a worker.
Result<NeededObjects> count_needed(Cluster& cluster);

// Whether an object loses its floor with this node; counts once, at the first of its holders that is here.
bool is_needed(const Map& map, const store::Record& record, const Redundancy& redundancy, DriveId drive);

}  // namespace millrace::cluster
