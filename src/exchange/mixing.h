// MixingMeter: how well the samples of a training run mix, over its epochs, each figure beside its ideal.
//
// Every rank goes through what it holds in its own order of the epoch (local_order), in batches; the batches
// of all ranks at the same step are one global batch. Ideals are those of a global shuffle: computed, or
// measured on random permutations of the same samples. One thread; some 80 bytes per sample.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "exchange/simulate.h"
#include "loader/quality.h"

namespace millrace::exchange {

struct MixingOptions {
  uint64_t seed = 0;
  uint64_t batch = 32;     // of one rank
  uint32_t watched = 512;  // samples whose pairs are counted
};

struct MixingFigures {
  using Measure = loader::Measure;
  std::optional<Measure> label_entropy;         // bits, of a rank's batch; where there are labels
  std::optional<Measure> global_label_entropy;  // of a global batch
  Measure pairs_in_batches;                     // dispersion of how often two samples are in one global batch
  Measure pairs_on_ranks;                       // of how often they are held by one rank
  Measure order_correlation;  // of a sample's places in successive epochs, by rank (Spearman)
  Measure neighbours_kept;    // share of samples followed by the same one as in the epoch before
  Measure neighbour_entropy;  // bits, as in loader/quality.h
  Measure ranks_seen;         // by a sample, so far
};

class MixingMeter {
 public:
  // Ids are below the number of samples.
  MixingMeter(const Ranks& ranks, MixingOptions options);

  // The epoch that is trained with the samples as they are.
  void add_epoch(const Ranks& ranks, uint64_t epoch);
  // After one epoch at least.
  MixingFigures figures() const;

 private:
  using Walks = std::vector<std::vector<uint64_t>>;  // by rank: ids in the order they are read
  struct Sums {
    double local_entropy = 0;
    double global_entropy = 0;
    double neighbour_entropy = 0;
  };
  void add(Sums& sums, const Walks& walks) const;
  Walks shuffle_globally(const Walks& like, uint64_t epoch) const;
  void compare_orders(const Walks& walks);
  double entropy_of(const std::vector<uint32_t>& counts) const;

  const MixingOptions options_;
  uint64_t samples_ = 0;
  uint32_t ranks_ = 0;
  uint32_t classes_ = 0;
  std::vector<uint32_t> labels_;     // by id
  std::vector<double> places_;       // by id, in the epoch before; from 0 to 1
  std::vector<uint64_t> followers_;  // by id, in the epoch before
  PairMeter batches_;
  PairMeter holders_;
  std::vector<std::set<uint32_t>> seen_;  // ranks, of watched samples
  Sums found_;
  Sums ideal_;
  double correlation_ = 0;
  double kept_ = 0;
  uint64_t epochs_ = 0;
};

}  // namespace millrace::exchange
