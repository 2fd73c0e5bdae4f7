// Meters: what each stage of a loader did and waited for; counted by its threads, read by the report.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

namespace millrace::loader {

inline uint64_t steady_ns() {
  std::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

struct StageMeter {
  std::atomic<uint64_t> count = 0;
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint64_t> busy_ns = 0;  // over all threads
};

// Adds its lifetime to a stage.
class Timer {
 public:
  explicit Timer(StageMeter& stage) : stage_(stage), begun_(steady_ns()) {}
  ~Timer() {
    stage_.busy_ns.fetch_add(steady_ns() - begun_, std::memory_order_relaxed);
    stage_.count.fetch_add(1, std::memory_order_relaxed);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  StageMeter& stage_;
  const uint64_t begun_;
};

struct Meters {
  StageMeter plan;                          // deciding what comes next: one thread
  StageMeter fetch;                         // count: stretches
  StageMeter untar;                         // count: samples
  StageMeter decode;                        // decode and augment; count: fields
  StageMeter deliver;                       // count: batches handed over; busy: waiting for them
  std::atomic<uint64_t> wait_bytes_ns = 0;  // workers: for bytes to arrive
  std::atomic<uint64_t> wait_room_ns = 0;   // workers: for the consumer to take a batch
  std::atomic<uint64_t> samples = 0;        // delivered
  std::atomic<uint64_t> sample_bytes = 0;   // encoded bytes of those
  std::atomic<uint64_t> cache_hits = 0;     // blocks found in the node's cache
  std::atomic<uint64_t> cache_misses = 0;
};

}  // namespace millrace::loader
