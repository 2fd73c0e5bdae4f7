// Order: which sample stands where in an epoch; a pure function of the data set and five numbers.
//
// Shards are permuted by (seed, epoch) and laid end to end; that sequence is cut into lanes; inside a lane
// each sample moves by a keyed displacement below the lane's window. A global batch takes its share of every
// lane, in lane order, and rank r of W takes the r-th contiguous slice of the batch. So every sample comes
// exactly once per epoch, all ranks get the same number of batches, and neither threads nor W change what a
// global batch holds. Any place can be found without walking there. Immutable; safe from many threads.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace::loader {

// What becomes of the samples that do not fill the last batch.
enum class EpochEnd {
  kExact,  // a shorter last batch: every sample exactly once
  kDrop,   // they are left out of this epoch
  kPad,    // the last batch is filled with samples from the beginning of the epoch
};
Result<EpochEnd> parse_epoch_end(std::string_view text);
std::string_view epoch_end_name(EpochEnd end);

struct OrderOptions {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t batch = 1;   // samples in a global batch, over all ranks
  uint64_t window = 0;  // samples, over all lanes; 0: the order of the data set, unshuffled
  EpochEnd end = EpochEnd::kExact;
};

struct SampleRef {
  uint32_t shard = 0;  // by its place in the data set, not in the epoch
  uint64_t ordinal = 0;
  bool operator==(const SampleRef&) const = default;
};

// A stretch of a batch: elements [first, first + size) of it.
struct Slice {
  uint64_t first = 0;
  uint64_t size = 0;
};

class Order {
 public:
  // Lanes are as many as 16 elements of a batch each allow.
  static constexpr uint64_t kElementsPerLane = 16;

  Order(const std::vector<uint64_t>& samples_per_shard, const OrderOptions& options);

  const OrderOptions& options() const { return options_; }
  uint64_t samples() const { return starts_.back(); }
  uint64_t batches() const;
  uint64_t batch_size(uint64_t batch) const;  // over all ranks
  Slice slice(uint64_t batch, uint64_t rank, uint64_t world) const;

  uint64_t lanes() const { return lane_starts_.size() - 1; }
  uint64_t lane_start(uint64_t lane) const { return lane_starts_[lane]; }
  uint64_t lane_size(uint64_t lane) const { return lane_starts_[lane + 1] - lane_starts_[lane]; }
  uint64_t lane_window() const { return lane_window_; }
  uint64_t lane_key(uint64_t lane) const;

  // Which stretch of a lane's output a batch takes, and where it goes in the batch.
  struct Share {
    uint64_t lane = 0;
    uint64_t position = 0;  // in the lane's output
    Slice elements;
  };
  std::vector<Share> shares(uint64_t batch) const;

  // The sample at a place of the sequence of shards, before lanes shuffle it.
  SampleRef at(uint64_t place) const;
  // The first place behind `place` that belongs to another shard.
  uint64_t shard_end(uint64_t place) const;
  // One element of one batch; looks it up anew, in time proportional to the window.
  SampleRef find(uint64_t batch, uint64_t element) const;

 private:
  std::vector<Share> own_shares(uint64_t batch) const;  // without padding
  size_t run_of(uint64_t place) const;

  const OrderOptions options_;
  std::vector<uint32_t> shards_;       // in the epoch's order
  std::vector<uint64_t> starts_;       // place of each one's first sample; one more at the end
  std::vector<uint64_t> shares_;       // first element of a batch that each lane gives; one more
  std::vector<uint64_t> lane_starts_;  // place of each lane's first sample; one more
  std::vector<uint64_t> rest_shares_;  // the same as shares_ for the last, shorter batch
  uint64_t lane_window_ = 1;
};

// Walks a lane's output from any position on.
class LaneCursor {
 public:
  LaneCursor(const Order& order, uint64_t lane, uint64_t position);

  // The place (in the sequence of shards) of the sample that comes next. Only lane_size times in all.
  uint64_t next();
  uint64_t position() const { return position_; }

 private:
  using Due = std::pair<uint64_t, uint64_t>;  // when, and which: places inside the lane
  Due due(uint64_t place) const;

  const uint64_t start_;
  const uint64_t size_;
  const uint64_t window_;
  const uint64_t key_;
  uint64_t position_;
  uint64_t seen_ = 0;  // places below this are in the heap or gone
  std::priority_queue<Due, std::vector<Due>, std::greater<>> waiting_;
};

// Walks whole batches, in rising order or from any of them on.
class BatchWalker {
 public:
  explicit BatchWalker(const Order& order) : order_(order) {}
  std::vector<SampleRef> samples(uint64_t batch);

 private:
  const Order& order_;
  std::map<uint64_t, LaneCursor> cursors_;  // by lane
};

}  // namespace millrace::loader
