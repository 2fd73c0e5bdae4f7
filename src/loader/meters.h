// Meters: the work and the waiting of each stage of a loader, counted by its threads and read by the report.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "loader/trace.h"

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

// Adds its lifetime to a stage, and to the trace where there is one.
class Timer {
 public:
  Timer(StageMeter& stage, std::string_view what, Trace* trace)
      : stage_(stage), what_(what), trace_(trace), begun_(steady_ns()) {}
  ~Timer() {
    const uint64_t end = steady_ns();
    stage_.busy_ns.fetch_add(end - begun_, std::memory_order_relaxed);
    stage_.count.fetch_add(1, std::memory_order_relaxed);
    if (trace_ != nullptr) trace_->add(what_, begun_, end);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  StageMeter& stage_;
  const std::string_view what_;
  Trace* const trace_;
  const uint64_t begun_;
};

struct Meters {
  Trace* trace = nullptr;  // spans go there too; mostly nowhere
  void name_thread(std::string_view role) const {
    if (trace != nullptr) trace->name_thread(role);
  }
  StageMeter plan;                          // deciding what comes next: one thread
  StageMeter fetch;                         // count: stretches
  StageMeter untar;                         // count: samples
  StageMeter decode;                        // decode and augment; count: fields
  StageMeter deliver;                       // count: batches handed over; busy: waiting for them
  StageMeter python;                        // functions of the user, after a batch was handed over
  std::atomic<uint64_t> wait_bytes_ns = 0;  // workers: for bytes to arrive
  std::atomic<uint64_t> wait_room_ns = 0;   // workers: for the consumer to take a batch
  std::atomic<uint64_t> ready_batches = 0;  // that lay ready, added up over all that were asked for
  std::atomic<uint64_t> samples = 0;        // delivered
  std::atomic<uint64_t> sample_bytes = 0;   // encoded bytes of those
  std::atomic<uint64_t> cache_hits = 0;     // blocks found in the node's cache
  std::atomic<uint64_t> cache_misses = 0;
};

}  // namespace millrace::loader
