// Chunk: a stretch of a shard's tar in memory, filled by one thread and read by many; and where its memory
// comes from.
//
// Memory is recycled: fresh pages cost five times what used ones do. A chunk is shared by the samples that
// lie in it and goes back when the last of them is done. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"

namespace millrace::loader {

// 64-byte aligned memory.
struct FreeAligned {
  void operator()(std::byte* memory) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;

// Blocks that were given back, by size; outlives what it lent only through shared_ptr. What is lent, promised
// and kept together stays within the limit as long as borrowers ask before they take: keeping gives way
// first.
class MemoryPool {
 public:
  struct Block {
    AlignedMemory memory;
    size_t capacity = 0;
  };
  explicit MemoryPool(uint64_t limit) : limit_(limit) {}
  Block take(size_t bytes);
  void give_back(Block block);
  // What will be taken, and what will not be after all.
  void promise(size_t bytes);
  void withdraw(size_t bytes);
  uint64_t committed() const;  // lent and promised
  uint64_t peak() const;       // of what was lent and kept at once

 private:
  const uint64_t limit_;
  mutable Mutex mutex_;
  std::vector<Block> kept_ MR_GUARDED_BY(mutex_);  // the latest last
  uint64_t kept_bytes_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t lent_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t promised_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t peak_ MR_GUARDED_BY(mutex_) = 0;
};

// For threads: an exception would end the process.
Error out_of_memory();

class Chunk {
 public:
  explicit Chunk(std::shared_ptr<MemoryPool> pool) : pool_(std::move(pool)) {}
  ~Chunk();

  // So many bytes will be reserved; said by whoever asks for them.
  void expect(size_t bytes);
  // Of whoever fills it.
  std::span<std::byte> reserve(size_t bytes);
  void succeed();
  void fail(Error error);

  // Waits until it is filled; an error where that failed or stop was asked for.
  Result<std::string_view> get() const;
  bool wait(uint64_t ms) const;  // whether get() has an answer within this time

 private:
  const std::shared_ptr<MemoryPool> pool_;
  MemoryPool::Block block_;
  size_t size_ = 0;
  size_t expected_ = 0;
  mutable Mutex mutex_;
  mutable ConditionVariable settled_;
  bool ready_ MR_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::loader
