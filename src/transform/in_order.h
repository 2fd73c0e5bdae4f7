// map_in_order: work on every sample of a tar, several at a time, results in the order of the samples.
//
// The work runs on threads that runs share; where they are all taken, on the caller's. Samples in flight hold
// at most kMostInFlightBytes, but one may be larger. Memory of a result counts as its sample's.
#pragma once

#include <functional>
#include <string>

#include "base/workers.h"
#include "tar/sample.h"
#include "transform/run.h"

namespace millrace::transform {

inline constexpr uint64_t kMostInFlightBytes = 64 << 20;
inline constexpr size_t kMostInFlight = 64;

struct MadeSamples {
  std::string blocks;  // of tar; empty: the sample is dropped
  uint64_t samples = 0;
};

struct InOrder {
  const Input& input;
  OnError on_error;
  Workers& workers;
  size_t at_a_time = 2;
  // Any thread.
  std::function<Result<MadeSamples>(const tar::Sample&)> work;
};

// Everything but the end blocks goes into `out`.
Result<Outcome> map_in_order(const InOrder& options, tar::ByteSink& out);

}  // namespace millrace::transform
