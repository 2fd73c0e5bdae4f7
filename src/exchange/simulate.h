// Simulation: all ranks of an exchange in one process, without a byte of data: the same plans, applied to
// lists.
//
// It answers what a run will do before it is run, for thousands of ranks, and it is what the real engine is
// held against: after every epoch both must give the same owner hash. One thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "exchange/balance.h"
#include "exchange/plan.h"

namespace millrace::exchange {

using Ranks = std::vector<std::vector<Resident>>;

// How samples are dealt out at the start.
enum class Partition {
  kRandom,      // any sample anywhere, equally many each
  kContiguous,  // stretches of the data set's own order
  kByShard,     // whole shards by turns; ranks may hold unequal numbers
};
Result<Partition> parse_partition(std::string_view text);
std::string_view partition_name(Partition partition);

struct Deal {
  Partition partition = Partition::kRandom;
  uint32_t ranks = 1;
  uint64_t seed = 0;
};
// The rank of every sample of the data set, by number; `per_shard`: how many samples each shard has.
std::vector<uint32_t> deal_samples(const Deal& deal, const std::vector<uint64_t>& per_shard);

// Which rank holds which sample, as one number: the sum over all samples, so that ranks can add up their
// shares.
uint64_t owner_share(uint32_t rank, std::span<const Resident> residents);
uint64_t owner_hash(const Ranks& ranks);

// The order in which a rank goes through its slots in an epoch: keyed by the rank, so that no two ranks walk
// alike.
std::vector<uint32_t> local_order(uint64_t seed, uint64_t epoch, uint32_t rank, uint32_t size);

struct EpochFigures {
  uint64_t epoch = 0;   // that was exchanged in; figures are of the state after it
  double fraction = 0;  // asked for
  uint64_t moved = 0;   // samples that changed their rank
  uint64_t messages = 0;
  uint64_t most_sent = 0;  // by one rank
  uint64_t most_held = 0;  // by one rank, arrivals and leavers together
  double home_share = 0;
  double home_theory = 0;  // of random selection: 1/M + (1-1/M) prod(1-q)
  LabelBalance balance;
  uint64_t owner_hash = 0;
};

class Simulation {
 public:
  // Ids are below the number of samples.
  Simulation(PlanOptions options, FractionSchedule fraction, Ranks ranks);

  Result<EpochFigures> step();
  const Ranks& ranks() const { return ranks_; }
  // Of the state as it is.
  EpochFigures figures() const;

 private:
  double home_share() const;
  std::vector<LabelCounts> label_counts() const;

  const PlanOptions options_;
  const FractionSchedule fraction_;
  Ranks ranks_;
  std::vector<uint32_t> homes_;  // by id
  uint32_t classes_ = 0;
  uint64_t epoch_ = 0;
  double at_home_ = 1;  // prod(1-q)
};

// Counts how often pairs of watched samples meet, over many rounds: on one rank, or in one batch.
// Where meetings are independent, the counts are spread as those of coin tosses: dispersion 1. A rule that
// keeps some pairs apart and others together shows as a dispersion far above.
class PairMeter {
 public:
  PairMeter(uint64_t samples, uint32_t watched, uint64_t seed);

  // Which group every watched sample is in this round.
  template <typename GroupOf>
  void add_round(GroupOf group_of) {
    std::vector<uint64_t> groups;
    for (const uint64_t id : ids_) groups.push_back(group_of(id));
    count(groups);
  }
  double dispersion() const;     // 1 where all pairs always or never met
  double meeting_share() const;  // of pairs and rounds
  const std::vector<uint64_t>& ids() const { return ids_; }

 private:
  void count(const std::vector<uint64_t>& groups);

  std::vector<uint64_t> ids_;
  std::vector<uint32_t> meetings_;  // of pair (i, j), i < j, in rows
  uint64_t rounds_ = 0;
};

}  // namespace millrace::exchange
