// sort_over_ranks: a shard set sorted, shuffled or cut anew by all ranks together.
//
// The order of samples is cut into as many ranges as there are ranks. Each rank reads its share of the shards
// and gives every sample to the rank of its range; sorts what it got, in bounded memory; and writes the
// shards that begin in its range. Where shards begin depends on the sizes of all samples before, so the ranks
// tell it each other in turn, and a shard that reaches into the next range gets the rest from there. Which
// sample comes where depends neither on the ranks nor on how they share the work: the output is, byte for
// byte, that of one process. On one machine, with files that fit into its memory, only the places of samples
// travel (shard/reread.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "exchange/group.h"
#include "shard/sort.h"
#include "shard/writer.h"

namespace millrace::exchange {

struct RankSortOptions {
  shard::SortOptions sort;  // its memory is each rank's
  shard::OutputName name;
  shard::ShardLimits limits;
  shard::OutputOptions output;
  uint64_t timeout_ms = 600'000;
};

struct RankSortReport {
  shard::SortReport sort;                   // of all ranks
  std::vector<shard::ShardSummary> shards;  // of all ranks, in order
  uint64_t bytes_sent = 0;                  // by this rank
};

// All ranks call it with the same arguments and get the same report, or the same error.
Result<RankSortReport> sort_over_ranks(Group& group, const std::vector<std::string>& shards,
                                       const RankSortOptions& options);

}  // namespace millrace::exchange
