// Chunk: a stretch of a shard's tar in memory, filled by one thread and read by many; and where its memory
// comes from.
//
// Memory is recycled: fresh pages cost five times what used ones do. A chunk is shared by the samples that
// lie in it and goes back when the last of them is done. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::loader {

// 64-byte aligned memory.
struct FreeAligned {
  void operator()(std::byte* memory) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;

// Blocks that were given back, by size; outlives what it lent only through shared_ptr.
class MemoryPool {
 public:
  struct Block {
    AlignedMemory memory;
    size_t capacity = 0;
  };
  explicit MemoryPool(uint64_t most_kept) : most_kept_(most_kept) {}
  Block take(size_t bytes);
  void give_back(Block block);
  uint64_t lent() const;
  uint64_t peak() const;

 private:
  const uint64_t most_kept_;
  mutable std::mutex mutex_;
  std::vector<Block> kept_;  // guarded by mutex_, as the rest
  uint64_t kept_bytes_ = 0;
  uint64_t lent_ = 0;
  uint64_t peak_ = 0;
};

class Chunk {
 public:
  explicit Chunk(std::shared_ptr<MemoryPool> pool) : pool_(std::move(pool)) {}
  ~Chunk();

  // Of whoever fills it.
  std::span<std::byte> reserve(size_t bytes);
  void succeed();
  void fail(Error error);

  // Waits until it is filled; an error where that failed or stop was asked for.
  Result<std::string_view> get() const;

 private:
  const std::shared_ptr<MemoryPool> pool_;
  MemoryPool::Block block_;
  size_t size_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable settled_;
  bool ready_ = false;            // guarded by mutex_
  std::optional<Error> failure_;  // guarded by mutex_
};

}  // namespace millrace::loader
