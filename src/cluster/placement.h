// Placement: which drives of all nodes hold an object. Pure: every node that knows the same map agrees.
//
// Weighted rendezvous hashing gives every name an order of drives. The holders are taken from that order one
// by one. Each time the drives of nodes with the fewest holders so far come first, among those the ones in
// zones with the fewest, and then the order decides. So slices lie in different zones while there are any, on
// different nodes while there are any, and otherwise as evenly as possible: 4+2 on three nodes puts two
// slices on each, and the loss of one node loses two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rendezvous.h"

namespace millrace::cluster {

struct PlacedDrive {
  Target target;      // its id and weight
  uint32_t node = 0;  // number of its node
  uint32_t zone = 0;  // number of its node's zone; the same for all where there are no zones
  bool operator==(const PlacedDrive&) const = default;
};

// Positions in `drives`: the holders of a name, in the order of its slices. Fewer than `count` where there
// are fewer drives.
std::vector<size_t> place_holders(uint64_t name, const std::vector<PlacedDrive>& drives, size_t count);

}  // namespace millrace::cluster
