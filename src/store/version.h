// VersionClock: the numbers by which the store orders things. Each is larger than all before it.
//
// A hybrid logical clock: the wall time in milliseconds, shifted by 20 bits, where that is ahead; else one
// more than the last number. It never goes back, also when the wall clock does; across restarts the
// high-water mark in each drive's index sees to that. Versions of objects and names of files come from it.
// Any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace millrace::store {

inline constexpr unsigned kVersionWallShift = 20;

class VersionClock {
 public:
  uint64_t next() {
    const uint64_t wall = static_cast<uint64_t>(std::max<int64_t>(wall_ms(), 0)) << kVersionWallShift;
    uint64_t last = last_.load(std::memory_order_relaxed);
    while (true) {
      const uint64_t now = std::max(last + 1, wall);
      if (last_.compare_exchange_weak(last, now, std::memory_order_relaxed)) return now;
    }
  }
  // Numbers up to this one were given out before.
  void observe(uint64_t seen) {
    uint64_t last = last_.load(std::memory_order_relaxed);
    while (last < seen && !last_.compare_exchange_weak(last, seen, std::memory_order_relaxed)) {
    }
  }
  uint64_t last() const { return last_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> last_ = 0;
};

}  // namespace millrace::store
