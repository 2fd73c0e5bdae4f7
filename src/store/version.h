// Version: which of two records of a key is newer. VersionClock: the numbers that versions are made of.
//
// A version is given at the commit, by whoever commits: the epoch of the map he acts under, a number of his
// clock, and who he is. Epochs come first, so that nobody who was overtaken can make a newer one. A store of
// one machine has no map: its versions are of epoch 0 and node 0.
//
// Each number of the clock is larger than all before it.
// A hybrid logical clock: the wall time in milliseconds, shifted by 20 bits, where that is ahead; else one
// more than the last number. It never goes back, also when the wall clock does; across restarts the
// high-water mark in each drive's index sees to that. Versions of objects and names of files come from it.
// Any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstdint>

#include "base/clock.h"

namespace millrace::store {

struct Version {
  uint32_t epoch = 0;
  uint64_t counter = 0;  // 0: not given yet
  uint32_t node = 0;

  bool is_given() const { return counter != 0; }
  auto operator<=>(const Version&) const = default;  // in this order
};

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
