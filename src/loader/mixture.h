// Mixture: which part of a mixed data set each element comes from: in exact proportions, everywhere.
//
// Weights become whole shares of a pattern that repeats; inside it the part that is furthest behind its share
// comes next, so any stretch of elements holds the parts in proportion, give or take one. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace millrace::loader {

class Mixture {
 public:
  static constexpr uint64_t kPattern = 1 << 16;

  // Weights are above zero, in any unit.
  static Result<Mixture> make(const std::vector<double>& weights);

  size_t parts() const { return shares_.size(); }
  size_t part(uint64_t element) const { return pattern_[element % kPattern]; }
  // How many elements before this one are of that part: its own place in the part.
  uint64_t before(size_t part, uint64_t element) const;
  double share(size_t part) const { return static_cast<double>(shares_[part]) / kPattern; }

 private:
  std::vector<uint64_t> shares_;  // of the pattern
  std::vector<uint16_t> pattern_;
  std::vector<std::vector<uint32_t>> counts_;  // per part: how many before each place of the pattern
};

}  // namespace millrace::loader
