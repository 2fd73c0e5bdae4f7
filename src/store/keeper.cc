// Counts the readers of files, so that a file goes with its last reader.
#include "store/keeper.h"

#include "base/assert.h"
#include "base/mutex.h"

namespace millrace::store {

void FileKeeper::pin(const std::vector<uint64_t>& files) {
  const MutexLock lock(mutex_);
  for (const uint64_t file : files) ++pins_[file];
}

std::vector<uint64_t> FileKeeper::unpin(const std::vector<uint64_t>& files) {
  std::vector<uint64_t> removable;
  const MutexLock lock(mutex_);
  for (const uint64_t file : files) {
    const auto found = pins_.find(file);
    MR_ASSERT(found != pins_.end(), file);
    if (--found->second > 0) continue;
    pins_.erase(found);
    if (dropped_.erase(file) > 0) removable.push_back(file);
  }
  return removable;
}

std::vector<uint64_t> FileKeeper::drop(const std::vector<uint64_t>& files) {
  std::vector<uint64_t> removable;
  const MutexLock lock(mutex_);
  for (const uint64_t file : files) {
    fresh_.erase(file);
    if (pins_.contains(file)) {
      dropped_.insert(file);
    } else {
      removable.push_back(file);
    }
  }
  return removable;
}

void FileKeeper::begin(uint64_t file) {
  const MutexLock lock(mutex_);
  fresh_.insert(file);
}

void FileKeeper::settle(const std::vector<uint64_t>& files) {
  const MutexLock lock(mutex_);
  for (const uint64_t file : files) fresh_.erase(file);
}

bool FileKeeper::is_busy(uint64_t file) const {
  const MutexLock lock(mutex_);
  return fresh_.contains(file) || pins_.contains(file);
}

std::vector<uint64_t> FileKeeper::take_dropped() {
  const MutexLock lock(mutex_);
  std::vector<uint64_t> files(dropped_.begin(), dropped_.end());
  dropped_.clear();
  return files;
}

}  // namespace millrace::store
