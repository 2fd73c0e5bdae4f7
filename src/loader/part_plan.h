// PartPlan: one part of a data set through one of its epochs: for any stretch of a batch, which samples and
// in which chunks their bytes lie; chunks are asked for as they come up.
//
// Lanes are read in chunks, forwards, and a chunk stays as long as the lane's window may still want a sample
// of it. Where the window's samples would not fit into the memory given, each sample is a chunk of its own.
// Batches must be taken in rising order to be cheap. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "loader/catalogue.h"
#include "loader/chunk.h"
#include "loader/fetch.h"
#include "loader/keep.h"
#include "loader/order.h"

namespace millrace::loader {

struct Element {
  std::shared_ptr<Chunk> chunk;  // null: all that is wanted of the sample is kept
  uint64_t offset = 0;           // of the sample's blocks in the chunk
  uint64_t size = 0;
  SampleRef sample;
  std::vector<Element> columns;  // the same sample in data sets that lend it fields
  // Where there is no index to ask: what it would say.
  uint64_t key_hash = 0;
  std::vector<uint64_t> field_bytes;  // per field of the recipe
};

// How bytes are asked for.
struct Reading {
  bool by_sample = false;
  uint64_t chunk_bytes = 0;
  // What a Shelf may hold of samples in buckets and of those that lend columns; 0: each is fetched by itself.
  uint64_t bucket_bytes = 0;
  uint64_t column_bytes = 0;
};

// What chunks are made of and filled by; outlives the plans.
struct Supply {
  Fetcher& fetcher;
  std::shared_ptr<MemoryPool> pool;
  // Where all fields are images that may have been kept: what keeps them, and how many they are.
  PixelKeep* keep = nullptr;
  size_t kept_fields = 0;

  // Then its bytes are not needed any more.
  bool has_kept(SampleRef sample) const;
};

bool is_compressed(const Shard& shard);
// The samples around `sample`, [first, end), whose tar offsets fall into the same stretch of `chunk_bytes`.
std::pair<uint64_t, uint64_t> samples_around(const Shard& shard, uint64_t sample, uint64_t chunk_bytes);
// Where so many samples from `first` on lie.
Stretch stretch_of(const Catalogue& catalogue, SampleRef first, uint64_t samples);
// One whose bytes are not needed: has_kept().
Element kept_sample(const Catalogue& catalogue, SampleRef sample);
// One sample by itself.
Element fetch_sample(const Catalogue& catalogue, SampleRef sample, const Supply& supply);

class PartPlan {
 public:
  PartPlan(const Catalogue& catalogue, size_t part, const OrderOptions& options, Reading reading,
           Supply supply);

  const Order& order() const { return order_; }
  // The elements [mine.first, mine.first + mine.size) of a batch.
  void take(uint64_t batch, Slice mine, std::span<Element> into);

 private:
  // One lane of which samples are taken.
  struct Lane {
    uint64_t number = 0;
    std::unique_ptr<LaneCursor> cursor;
    struct Held {
      std::shared_ptr<Chunk> chunk;  // null: not asked for, nobody has wanted it yet
      uint64_t offset = 0;           // of its first byte in the tar, once asked for
      uint64_t end = 0;              // place behind its last sample
      uint64_t left = 0;             // samples that the order has not reached
    };
    std::map<uint64_t, Held> held;  // by place of the first sample
    struct Streaming {
      std::shared_ptr<Stream> stream;
      uint64_t next = 0;  // first place not asked for yet
    };
    std::map<uint64_t, Streaming> streams;  // of compressed shards, by the first place behind each
  };
  using Holding = std::map<uint64_t, Lane::Held>::iterator;

  SampleRef at(uint64_t place) const;
  const Shard& shard_at(uint64_t place) const { return catalogue_.shards()[at(place).shard]; }
  Lane& lane_at(uint64_t number, uint64_t position);
  Element take_next(Lane& lane, bool is_mine);
  Holding hold(Lane& lane, uint64_t place);
  Holding hold_streamed(Lane& lane, uint64_t place);
  std::pair<uint64_t, uint64_t> stretch_around(const Lane& lane, uint64_t place) const;
  void ask(Lane::Held& held, SampleRef first, uint64_t samples, const std::shared_ptr<Stream>& stream);

  const Catalogue& catalogue_;
  const uint32_t first_shard_;
  const Reading reading_;
  const Supply supply_;
  const Order order_;
  std::map<uint64_t, Lane> lanes_;  // by number; made when first wanted
};

}  // namespace millrace::loader
