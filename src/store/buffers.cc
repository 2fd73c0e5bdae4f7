// A pool of aligned buffers for blocks on their way.
#include "store/buffers.h"

#include <cstdlib>

#include "base/assert.h"
#include "base/mutex.h"
#include "store/trailer.h"

namespace millrace::store {

void BufferPool::Return::operator()(std::byte* memory) const {
  pool->give_back(memory);
}

BufferPool::~BufferPool() {
  MR_ASSERT(free_.size() == made_);
  for (std::byte* memory : free_) std::free(memory);
}

BufferPool::Buffer BufferPool::take() {
  const MutexLock lock(mutex_);
  if (!free_.empty()) {
    std::byte* memory = free_.back();
    free_.pop_back();
    return {memory, Return{this}};
  }
  if (made_ == most_) return {nullptr, Return{this}};
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, buffer_bytes_));
  if (memory == nullptr) return {nullptr, Return{this}};
  ++made_;
  return {memory, Return{this}};
}

void BufferPool::when_free(std::function<void()> ready) {
  {
    const MutexLock lock(mutex_);
    if (free_.empty() && made_ == most_) {
      waiting_.push_back(std::move(ready));
      short_ = true;
      return;
    }
  }
  ready();
}

size_t BufferPool::in_use() const {
  const MutexLock lock(mutex_);
  return made_ - free_.size();
}

void BufferPool::give_back(std::byte* memory) {
  std::function<void()> ready;
  {
    const MutexLock lock(mutex_);
    free_.push_back(memory);
    if (!waiting_.empty()) {
      ready = std::move(waiting_.front());
      waiting_.pop_front();
      short_ = !waiting_.empty();
    }
  }
  if (ready) ready();
}

}  // namespace millrace::store
