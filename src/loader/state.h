// State: where a run is, in a few numbers: enough to go on with the identical batches.
//
// The order is a pure function, so no sample is replayed to get there. Another number of threads or ranks may
// go on from it; another data set, batch, window or seed may not, and is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/catalogue.h"
#include "loader/recipe.h"

namespace millrace::loader {

struct State {
  uint64_t epoch = 0;
  uint64_t batch = 0;  // the next, in its epoch
  uint64_t world = 0;  // ranks that streamed it: only as many can go on inside the epoch; 0: any
  bool operator==(const State&) const = default;
};

// JSON of well below 1 KB.
std::string format_state(const State& state, const Catalogue& catalogue, const Recipe& recipe);
// An error that names the first thing that differs.
Result<State> parse_state(std::string_view text, const Catalogue& catalogue, const Recipe& recipe);

}  // namespace millrace::loader
