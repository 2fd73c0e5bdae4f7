// Counts blocks, and has old ones dropped.
#include "upstream/fetch_memory.h"

#include <utility>

namespace millrace::upstream {

FetchMemory::Memory::Memory(std::shared_ptr<FetchMemory> memory)
    : memory_(std::move(memory)), block_(memory_->blocks_.take(kFetchBlock)) {
  memory_->used_.fetch_add(kFetchBlock);
}

FetchMemory::Memory::~Memory() {
  memory_->used_.fetch_sub(kFetchBlock);
}

void FetchMemory::add(std::weak_ptr<Holder> holder) {
  const MutexLock lock(mutex_);
  std::erase_if(holders_, [](const std::weak_ptr<Holder>& one) { return one.expired(); });
  holders_.push_back(std::move(holder));
}

bool FetchMemory::try_promise(uint64_t bytes) {
  uint64_t promised = promised_.load();
  while (used_.load() + promised + bytes <= limit_) {
    if (promised_.compare_exchange_weak(promised, promised + bytes)) return true;
  }
  return false;
}

void FetchMemory::make_room(uint64_t bytes) {
  if (has_room(bytes)) return;
  std::vector<std::shared_ptr<Holder>> holders;
  {
    const MutexLock lock(mutex_);
    for (const auto& one : holders_) {
      if (auto alive = one.lock()) holders.push_back(std::move(alive));
    }
  }
  for (const auto& holder : holders) {
    holder->drop(bytes);
    if (has_room(bytes)) return;
  }
}

}  // namespace millrace::upstream
