// Measures how fast samples move between ranks, beside the fastest that the transport can do with the same
// bytes.
//
// Three ways, each with the plan of one epoch: `raw` large messages of the same bytes, lying side by side;
// `sent` scattered samples to where they stay, by the engine's own messages, as between machines; `taken` the
// same with ranks of one machine copying from each other. The samples lie in a file of the page cache, as in
// a store; checksums, flushes and commits are left out. All ranks call it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "exchange/group.h"

namespace millrace::exchange {

struct TransferBench {
  uint64_t samples = 250;  // that each rank sends in an epoch
  uint64_t sample_bytes = 110'000;
  uint64_t rounds = 5;
  uint64_t seed = 0;
};
struct TransferRates {
  double raw_seconds = 0;  // per round; the slowest rank's, the median of rounds
  double sent_seconds = 0;
  double taken_seconds = 0;
  uint64_t bytes = 0;  // that each rank sends in a round
};
Result<TransferRates> bench_transfer(Group& group, const TransferBench& options);

}  // namespace millrace::exchange
