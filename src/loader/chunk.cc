// Implements chunks and the memory they are lent.
#include "loader/chunk.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/assert.h"
#include "base/mutex.h"

namespace millrace::loader {

namespace {
constexpr size_t kAlignment = 64;
}

void FreeAligned::operator()(std::byte* memory) const {
  std::free(memory);
}

MemoryPool::Block MemoryPool::take(size_t bytes) {
  // Sizes in steps of an eighth, so that chunks of nearly the same size share blocks.
  const size_t step = std::max<size_t>(std::bit_floor(std::max<size_t>(bytes, 1)) / 8, 4096);
  const size_t capacity = (bytes + step - 1) / step * step;
  {
    const MutexLock lock(mutex_);
    const auto fit = std::find_if(kept_.rbegin(), kept_.rend(), [&](const Block& block) {
      return block.capacity >= capacity && block.capacity <= 2 * capacity;
    });
    if (fit != kept_.rend()) {
      Block block = std::move(*fit);
      kept_.erase(std::next(fit).base());
      kept_bytes_ -= block.capacity;
      lent_ += block.capacity;
      peak_ = std::max(peak_, lent_ + kept_bytes_);
      return block;
    }
    lent_ += capacity;
    while (!kept_.empty() && lent_ + kept_bytes_ > limit_) {
      kept_bytes_ -= kept_.front().capacity;
      kept_.erase(kept_.begin());
    }
    peak_ = std::max(peak_, lent_ + kept_bytes_);
  }
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, capacity));
  if (memory == nullptr) throw std::bad_alloc();
  return {AlignedMemory(memory), capacity};
}

Error out_of_memory() {
  return make_error(Code::kTooLarge, "the machine has no memory left for the next batch")
      .with_hint("smaller batches or images, or a smaller memory=");
}

void MemoryPool::give_back(Block block) {
  const MutexLock lock(mutex_);
  lent_ -= block.capacity;
  if (lent_ + kept_bytes_ + block.capacity > limit_) return;
  kept_bytes_ += block.capacity;
  kept_.push_back(std::move(block));
}

void MemoryPool::promise(size_t bytes) {
  const MutexLock lock(mutex_);
  promised_ += bytes;
}

void MemoryPool::withdraw(size_t bytes) {
  const MutexLock lock(mutex_);
  promised_ -= bytes;
}

uint64_t MemoryPool::committed() const {
  const MutexLock lock(mutex_);
  return lent_ + promised_;
}

uint64_t MemoryPool::peak() const {
  const MutexLock lock(mutex_);
  return peak_;
}

Chunk::~Chunk() {
  if (expected_ > 0) pool_->withdraw(expected_);
  if (block_.memory) pool_->give_back(std::move(block_));
}

void Chunk::expect(size_t bytes) {
  pool_->promise(bytes);
  expected_ += bytes;
}

std::span<std::byte> Chunk::reserve(size_t bytes) {
  if (expected_ > 0) pool_->withdraw(std::exchange(expected_, 0));
  if (block_.capacity < bytes) {
    if (block_.memory) pool_->give_back(std::move(block_));
    block_ = pool_->take(bytes);
  }
  size_ = bytes;
  return {block_.memory.get(), bytes};
}

void Chunk::succeed() {
  {
    const MutexLock lock(mutex_);
    ready_ = true;
  }
  settled_.notify_all();
}

void Chunk::fail(Error error) {
  {
    const MutexLock lock(mutex_);
    if (ready_ || failure_) return;
    failure_ = std::move(error);
  }
  settled_.notify_all();
}

bool Chunk::wait(uint64_t ms) const {
  UniqueLock lock(mutex_);
  return settled_.wait_for(lock, std::chrono::milliseconds(ms),
                           [&]() MR_REQUIRES(mutex_) { return ready_ || failure_.has_value(); });
}

Result<std::string_view> Chunk::get() const {
  UniqueLock lock(mutex_);
  settled_.wait(lock, [&]() MR_REQUIRES(mutex_) { return ready_ || failure_.has_value(); });
  if (failure_) return failure_->copy();
  return std::string_view(reinterpret_cast<const char*>(block_.memory.get()), size_);
}

}  // namespace millrace::loader
