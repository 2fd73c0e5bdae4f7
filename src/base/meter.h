// Meter: counts calls, bytes, durations and errors of one kind of work. Many threads count; a report reads.
//
// Atomic adds only. The durations fall into fixed buckets, so that percentiles and Prometheus histograms come
// from the same numbers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace millrace {

class Meter {
 public:
  // Upper bounds in microseconds; the last bucket has none.
  static constexpr std::array<uint64_t, 16> kBounds = {50,     100,     250,     500,     1000,   2500,
                                                       5000,   10000,   25000,   50000,   100000, 250000,
                                                       500000, 1000000, 5000000, 30000000};

  void count(uint64_t bytes, uint64_t microseconds) {
    size_t bucket = 0;
    while (bucket < kBounds.size() && microseconds > kBounds[bucket]) ++bucket;
    buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    microseconds_.fetch_add(microseconds, std::memory_order_relaxed);
  }
  void count_error() { errors_.fetch_add(1, std::memory_order_relaxed); }

  struct Reading {
    std::array<uint64_t, kBounds.size() + 1> buckets{};
    uint64_t count = 0;
    uint64_t bytes = 0;
    uint64_t microseconds = 0;
    uint64_t errors = 0;

    void add(const Reading& other) {
      for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
      count += other.count;
      bytes += other.bytes;
      microseconds += other.microseconds;
      errors += other.errors;
    }
  };
  Reading read() const {
    Reading reading;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      reading.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
      reading.count += reading.buckets[i];
    }
    reading.bytes = bytes_.load(std::memory_order_relaxed);
    reading.microseconds = microseconds_.load(std::memory_order_relaxed);
    reading.errors = errors_.load(std::memory_order_relaxed);
    return reading;
  }

 private:
  std::array<std::atomic<uint64_t>, kBounds.size() + 1> buckets_{};
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> microseconds_ = 0;
  std::atomic<uint64_t> errors_ = 0;
};

}  // namespace millrace
