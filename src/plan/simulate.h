// simulate: runs a plan as a small discrete-event model. It shows effects that the steady flow does not.
//
// Readers of each GPU machine open shards, ask their drives for windows, and the windows pass interfaces,
// switches, cores and GPUs one after the other, each in turn. So few shards, few readers, small buffers, a
// slow drive, a slow start and the end of an epoch cost what they cost. Shards lie where the maximum flow
// would read them. Deterministic.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "plan/check.h"

namespace millrace::plan {

enum class Extent {
  kSteady,  // a stretch in the middle of training: shards never end
  kEpoch,   // one epoch from the first request to the last sample
};

struct SimulationOptions {
  Extent extent = Extent::kSteady;
  uint64_t most_windows = 1'000'000;  // what is simulated at most; an epoch that has more is refused
  Progress* progress = nullptr;       // counts samples
};

struct Busy {
  std::string what;
  double mean = 0;  // share of the time
  double most = 0;  // of the busiest of them
};

struct Simulation {
  double samples_per_second = 0;
  double expected = 0;       // by the maximum flow
  double seconds = 0;        // simulated
  double first_seconds = 0;  // until the first samples were in a GPU
  uint64_t windows = 0;
  uint64_t events = 0;
  double gpu_utilisation = 0;
  std::vector<Busy> busy;
  std::vector<std::string> notes;  // why it is slower than the flow

  double share() const { return samples_per_second / expected; }
};

Result<Simulation> simulate(const Installation& plan, const SimulationOptions& options);

}  // namespace millrace::plan
