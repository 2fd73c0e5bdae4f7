// BufferPool: the memory in which the blocks of all PUTs travel to the drives. Bounded for the whole node.
//
// Buffers are page aligned (O_DIRECT needs it) and used again, last returned first taken: their pages are
// touched and warm. take() never waits; whoever finds the pool empty leaves a callback. Outlives its buffers.
// Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace millrace::store {

class BufferPool {
 public:
  struct Return {
    BufferPool* pool = nullptr;
    void operator()(std::byte* memory) const;
  };
  using Buffer = std::unique_ptr<std::byte, Return>;

  BufferPool(size_t buffer_bytes, size_t most_buffers) : buffer_bytes_(buffer_bytes), most_(most_buffers) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Empty while all are in use.
  Buffer take();
  // Calls `ready` (once) when take() is worth trying again; at once if it is now.
  void when_free(std::function<void()> ready);
  size_t buffer_bytes() const { return buffer_bytes_; }
  size_t in_use() const;
  // Whether fewer than half are in use.
  bool has_plenty() const { return 2 * in_use() < most_; }
  // Whether someone waits for a buffer.
  bool is_short() const { return short_.load(std::memory_order_relaxed); }

 private:
  void give_back(std::byte* memory);

  const size_t buffer_bytes_;
  const size_t most_;
  mutable Mutex mutex_;
  std::vector<std::byte*> free_ MR_GUARDED_BY(mutex_);
  size_t made_ MR_GUARDED_BY(mutex_) = 0;
  std::deque<std::function<void()>> waiting_ MR_GUARDED_BY(mutex_);  // one per writer at most
  std::atomic<bool> short_ = false;                                  // waiting_ is not empty
};

}  // namespace millrace::store
