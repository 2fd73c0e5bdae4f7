// Planner: turns an order into work: for each batch of a rank, which sample goes to which slot and in which
// chunk its bytes lie; chunks are asked for as they come up.
//
// Lanes are read in chunks, forwards, and a chunk stays as long as the lane's window may still want a sample
// of it. Where the window's samples would not fit into the memory given, each sample is a chunk of its own,
// asked for when its batch is planned. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "loader/catalogue.h"
#include "loader/chunk.h"
#include "loader/fetch.h"
#include "loader/order.h"
#include "loader/recipe.h"

namespace millrace::loader {

struct Element {
  std::shared_ptr<Chunk> chunk;
  uint64_t offset = 0;  // of the sample's blocks in the chunk
  uint64_t size = 0;
  SampleRef sample;
};

struct BatchPlan {
  uint64_t epoch = 0;
  uint64_t number = 0;
  std::vector<Element> elements;
  uint64_t bytes = 0;
};

class Planner {
 public:
  struct Place {
    uint64_t epoch = 0;
    uint64_t batch = 0;
    uint64_t rank = 0;
    uint64_t world = 1;
    uint64_t step = 1;  // from one batch to the next
  };
  Planner(const Catalogue& catalogue, const Recipe& recipe, Place place, Fetcher& fetcher,
          std::shared_ptr<MemoryPool> pool);

  // Nothing at the end of the epoch.
  std::optional<BatchPlan> next();

  const Order& order() const { return order_; }
  bool by_sample() const { return by_sample_; }

 private:
  // One lane of which this rank takes samples.
  struct Lane {
    std::unique_ptr<LaneCursor> cursor;
    struct Held {
      std::shared_ptr<Chunk> chunk;
      uint64_t offset = 0;  // of its first byte in the tar
      uint64_t end = 0;     // place behind its last sample
      uint64_t left = 0;    // samples that the order has not reached
    };
    std::map<uint64_t, Held> held;  // by place of the first sample
    struct Streaming {
      std::shared_ptr<Stream> stream;
      uint64_t next = 0;  // first place not asked for yet
    };
    std::map<uint64_t, Streaming> streams;  // of compressed shards, by the first place behind each
  };
  Element take(Lane& lane, uint64_t lane_number, uint64_t place, bool is_mine);
  std::map<uint64_t, Lane::Held>::iterator hold(Lane& lane, uint64_t lane_number, uint64_t place);
  Lane::Held ask(uint64_t first, uint64_t end, const std::shared_ptr<Stream>& stream);
  LaneCursor& cursor_at(Lane& lane, uint64_t lane_number, uint64_t position);

  const Catalogue& catalogue_;
  const Place place_;
  Fetcher& fetcher_;
  const std::shared_ptr<MemoryPool> pool_;
  const Order order_;
  const bool by_sample_;
  uint64_t chunk_bytes_ = 0;
  uint64_t batch_;
  std::map<uint64_t, Lane> lanes_;  // by number; made when first wanted
};

}  // namespace millrace::loader
