// Freed blocks on a list, last returned first taken.
#include "base/blocks.h"

#include <new>
#include <vector>

#include "base/mutex.h"

namespace millrace {

namespace {

constexpr std::align_val_t kPage{4096};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete(memory, kPage); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory make_memory(size_t bytes) {
  return Memory(static_cast<std::byte*>(::operator new(bytes, kPage)));
}

}  // namespace

class Blocks::Shelf {
 public:
  Memory take() {
    const MutexLock lock(mutex_);
    if (free_.empty()) return nullptr;
    Memory memory = std::move(free_.back());
    free_.pop_back();
    return memory;
  }
  void give_back(Memory memory) {
    const MutexLock lock(mutex_);
    if (free_.size() < kMostKept) free_.push_back(std::move(memory));
  }
  size_t size() const {
    const MutexLock lock(mutex_);
    return free_.size();
  }

 private:
  mutable Mutex mutex_;
  std::vector<Memory> free_ MR_GUARDED_BY(mutex_);
};

Blocks::Blocks() : shelf_(std::make_shared<Shelf>()) {}

Block Blocks::take(size_t bytes) {
  if (bytes < kLeastKept || bytes > kBytes)
    return {std::shared_ptr<std::byte>(make_memory(bytes).release(), Free()), bytes};
  Memory memory = shelf_->take();
  if (memory == nullptr) memory = make_memory(kBytes);
  const auto give_back = [shelf = shelf_](std::byte* used) { shelf->give_back(Memory(used)); };
  return {std::shared_ptr<std::byte>(memory.release(), give_back), bytes};
}

size_t Blocks::kept() const {
  return shelf_->size();
}

}  // namespace millrace
