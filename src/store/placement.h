// Placement: which drive an object goes to, by weighted rendezvous hashing.
//
// Every drive gets a score from its id, its weight and the object's name; the best score is the first choice.
// A drive that comes takes only its share from the others, a drive that goes gives its objects to all others.
// Pure: the same everywhere.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace::store {

struct PlacementTarget {
  uint64_t id = 0;      // hash of the drive's id
  double weight = 1.0;  // its capacity
};

uint64_t placement_hash(std::string_view bucket, std::string_view key);

// Positions in `targets`, best first.
std::vector<size_t> place(uint64_t object_hash, const std::vector<PlacementTarget>& targets);
// Only the best; `targets` is not empty.
size_t place_first(uint64_t object_hash, const std::vector<PlacementTarget>& targets);

}  // namespace millrace::store
