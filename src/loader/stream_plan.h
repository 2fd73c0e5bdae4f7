// StreamPlan: batches of shards that nobody has indexed: read once, forwards, through a shuffle buffer.
//
// The shards, permuted by (seed, epoch), are dealt to the ranks in turn; each rank shuffles its samples in a
// buffer of its share of the window. The order depends on seed, epoch, rank and world, never on timing. A
// start in the middle reads and drops what came before. Ranks may get different numbers of batches: only an
// index can tell how many samples there are. One thread.
#pragma once

#include <memory>

#include "loader/plan.h"
#include "shard/stream.h"

namespace millrace::loader {

class StreamPlan final : public BatchSource {
 public:
  // The catalogue was opened without indexes.
  StreamPlan(const Catalogue& catalogue, const Recipe& recipe, const Planner::Place& place,
             const Supply& supply);

  Result<std::optional<BatchPlan>> next() override;

 private:
  Result<bool> add_sample(BatchPlan& plan);  // false at the end
  // The shards behind this one of the rank will be read soon.
  void hint_behind(size_t input);

  const Recipe& recipe_;
  const Planner::Place place_;
  const Supply supply_;
  const std::vector<uint32_t> shards_;  // of this rank, in the order of the epoch
  uint64_t batch_size_;
  size_t hinted_ = 1;  // so many shards were named, or begun
  uint64_t batch_ = 0;
  std::unique_ptr<shard::SampleStream> samples_;
};

}  // namespace millrace::loader
