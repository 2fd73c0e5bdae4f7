// Ranks whose stores all lie below one root that this process sees: run as threads, checked, dealt anew.
//
// For one machine, for tests, for staging, and for a restart with another number of ranks. Blocks until done.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "exchange/exchange.h"
#include "exchange/group.h"

namespace millrace::exchange {

// How many stores there are: rank-00000 and those that follow it without a gap.
uint32_t count_stores(const std::string& root);

// Runs `work` for every rank, each in a thread of its own; the first failure by rank.
Status run_ranks(uint32_t ranks, const std::function<Status(Group&)>& work);

// Deals the samples to `world` ranks, moving as few as possible; what a crash left half done is finished
// first. Stores of ranks that are no more are removed when they are empty.
Status redeal_stores(const std::string& root, uint32_t world, const ExchangeOptions& options);

struct VerifyReport {
  uint32_t ranks = 0;
  uint64_t epoch = 0;
  uint64_t samples = 0;
  uint64_t bytes = 0;
  std::vector<std::string> faults;  // sentences
};
// Every sample is held once, by one rank, and is what it was; a store that lags an epoch behind counts as
// what recovery will make of it. Damage is in the report; an error is what keeps it from being made.
Result<VerifyReport> verify_stores(const std::string& root, Progress* progress);

}  // namespace millrace::exchange
