// Ways: a flow taken apart into paths from drives to GPUs; circles in it carry nothing and are left out.
#pragma once

#include <vector>

#include "plan/check.h"

namespace millrace::plan {

struct Way {
  std::vector<size_t> resources;  // of the path, in order
  Rational samples_per_second;
  double share = 0;  // of the whole flow
  size_t arrival =
      0;  // how many resources lie before the machine that reads: from there on it is not a stream any more
};

std::vector<Way> find_ways(const Check& check);

}  // namespace millrace::plan
