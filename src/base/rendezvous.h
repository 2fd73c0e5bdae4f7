// Weighted rendezvous hashing: an order of targets for every name.
//
// Every target gets a score from its id, its weight and the name's hash; the best score is the first choice.
// A target that comes takes only its share from the others, one that goes gives its names to all others.
// Pure: the same everywhere.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace {

struct Target {
  uint64_t id = 0;      // a hash
  double weight = 1.0;  // a capacity, above zero
  bool operator==(const Target&) const = default;
};

// Of an object's name.
uint64_t name_hash(std::string_view bucket, std::string_view key);

// Above zero; higher is better.
double rendezvous_score(uint64_t name, const Target& target);

// Positions in `targets`, best first.
std::vector<size_t> rendezvous_order(uint64_t name, const std::vector<Target>& targets);
// Only the best; `targets` is not empty.
size_t rendezvous_first(uint64_t name, const std::vector<Target>& targets);

}  // namespace millrace
