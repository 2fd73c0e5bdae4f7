// RunningReads: which stretches of one object are being brought from its drive now, and who waits for them.
//
// Whoever needs bytes that somebody else brings waits for that one, instead of reading and comparing the same
// bytes beside it. A few stretches are under way at a time: one for each thread that reads the drive. Any
// thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace millrace::store {

// Some bytes of one piece of an object.
struct PieceRange {
  size_t piece = 0;
  uint64_t offset = 0;  // in the piece
  uint64_t size = 0;

  bool contains(const PieceRange& other) const {
    return piece == other.piece && offset <= other.offset && other.offset + other.size <= offset + size;
  }
};

class RunningReads {
 public:
  using Waiter = std::function<void()>;

  // From now on the caller brings this stretch, until it calls finish() with the number.
  uint64_t begin(const PieceRange& stretch) {
    const MutexLock lock(mutex_);
    running_.push_back({++last_, stretch, {}});
    return last_;
  }
  // Those who waited; the caller is to call them.
  std::vector<Waiter> finish(uint64_t number) {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find(running_, number, &Running::number);
    std::vector<Waiter> waiters = std::move(found->waiters);
    running_.erase(found);
    return waiters;
  }
  // Keeps the waiter until the stretch is there; false where nobody is bringing all of it.
  bool wait(const PieceRange& stretch, const Waiter& waiter) {
    const MutexLock lock(mutex_);
    for (Running& running : running_) {
      if (!running.stretch.contains(stretch)) continue;
      running.waiters.push_back(waiter);
      return true;
    }
    return false;
  }

 private:
  struct Running {
    uint64_t number = 0;
    PieceRange stretch;
    std::vector<Waiter> waiters;
  };
  Mutex mutex_;
  uint64_t last_ MR_GUARDED_BY(mutex_) = 0;
  std::vector<Running> running_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::store
