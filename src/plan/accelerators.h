// What a training step of a known model takes on a known GPU, as MLPerf Storage defines its simulated
// accelerators.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace millrace::plan {

struct Accelerator {
  std::string_view name;
  uint64_t record_bytes;  // mean, as stored
  uint64_t batch;         // samples a step
  double seconds;         // a step
};

std::span<const Accelerator> accelerators();

}  // namespace millrace::plan
