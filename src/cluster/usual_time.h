// UsualTime: how long 95 of 100 answers take at most, followed from answer to answer.
//
// Each answer that is slower moves the estimate up by nineteen steps, each that is quicker moves it down by
// one: it rests where one of twenty is slower. A step is a share of the estimate, so it finds its way from
// any beginning. All calls are safe from many threads; an update that is lost to another costs nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace millrace::cluster {

class UsualTime {
 public:
  explicit UsualTime(uint64_t first_us) : estimate_us_(static_cast<double>(first_us)) {}

  void note(uint64_t us) {
    const double now = estimate_us_.load(std::memory_order_relaxed);
    const double step = std::max(now * kStep, 1.0);
    const double next = static_cast<double>(us) > now ? now + 19 * step : now - step;
    estimate_us_.store(std::max(next, 1.0), std::memory_order_relaxed);
  }
  uint64_t us() const { return static_cast<uint64_t>(estimate_us_.load(std::memory_order_relaxed)); }

 private:
  static constexpr double kStep = 0.005;
  std::atomic<double> estimate_us_;
};

}  // namespace millrace::cluster
