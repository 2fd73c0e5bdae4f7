// HealPace: how much of its time a node gives to making and moving slices.
//
// While clients ask this node for objects, healing gets a share of the time: one step after the other, each
// followed by a rest. While nobody asks, it goes as fast as it can. A step is a stripe of an object, so that
// a request waits for milliseconds, not for a slice. Any thread; step() blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace millrace::cluster {

class HealPace {
 public:
  // So long after the last request of a client the node counts as idle.
  static constexpr uint64_t kIdleUs = 1'000'000;

  void set_share(double share) { share_.store(share, std::memory_order_relaxed); }
  void note_client() { client_us_.store(coarse_us(), std::memory_order_relaxed); }

  // Of the time, now.
  double share() const {
    const uint64_t client_us = client_us_.load(std::memory_order_relaxed);
    const bool idle = client_us == 0 || coarse_us() - client_us > kIdleUs;
    return idle ? 1.0 : share_.load(std::memory_order_relaxed);
  }
  // How long to rest after work that took so long.
  uint64_t rest_us(uint64_t took_us) const {
    const double now = share();
    return static_cast<uint64_t>(static_cast<double>(took_us) * (1.0 - now) / now);
  }

  // Does the work when it is its turn. Whoever stops does not wait.
  template <typename Work>
  auto step(const std::atomic<bool>& stopping, const Work& work) {
    if (share() >= 1.0) return work();
    const MutexLock turn(turn_);
    while (!stopping && share() < 1.0 && steady_us() < rested_us_) std::this_thread::sleep_for(kLookEvery);
    const uint64_t began_us = steady_us();
    auto done = work();
    const uint64_t now_us = steady_us();
    rested_us_ = now_us + rest_us(now_us - began_us);
    return done;
  }

 private:
  static constexpr std::chrono::milliseconds kLookEvery{2};

  std::atomic<double> share_ = 1.0;
  std::atomic<uint64_t> client_us_ = 0;
  Mutex turn_;
  uint64_t rested_us_ MR_GUARDED_BY(turn_) = 0;
};

}  // namespace millrace::cluster
