// Shelf: chunks for samples that are asked for out of the order of their shards, but near to each other in
// time: those of buckets and of joined columns. They share chunks; the chunk that was unused longest is
// dropped first.
//
// The bytes it may hold should cover the stretches that are used in turns: a sample whose chunk is gone
// fetches all of it again. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "loader/catalogue.h"
#include "loader/part_plan.h"

namespace millrace::loader {

class Shelf {
 public:
  // `most_bytes` 0: every sample is fetched by itself.
  struct Limits {
    uint64_t chunk_bytes = 0;
    uint64_t most_bytes = 0;
  };
  // All outlive it.
  Shelf(const Catalogue& catalogue, Limits limits, Supply supply)
      : catalogue_(catalogue), limits_(limits), supply_(std::move(supply)) {}

  // The sample, whose bytes are on their way. Those of compressed shards are always fetched by themselves.
  Element take(SampleRef sample);

 private:
  using Name = std::pair<uint32_t, uint64_t>;  // shard and first sample
  struct Held {
    std::shared_ptr<Chunk> chunk;
    Stretch stretch;
    uint64_t used = 0;  // a key of by_use_
  };
  void put_away();

  const Catalogue& catalogue_;
  const Limits limits_;
  const Supply supply_;
  std::map<Name, Held> held_;
  std::map<uint64_t, Name> by_use_;  // the longest unused first
  uint64_t uses_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace millrace::loader
