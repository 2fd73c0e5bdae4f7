// Meters: what each operation did: durations, bytes, errors. Counted by any thread, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/meter.h"
#include "gateway/s3_operations.h"

namespace millrace::gateway {

struct Counts {
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t microseconds = 0;
  int status = 0;
};

struct MeterReading {
  std::string_view meter;  // the name that the table of operations gives it
  Meter::Reading out;      // durations, bytes sent, server errors
  uint64_t bytes_in = 0;
  uint64_t client_errors = 0;
};

class Meters {
 public:
  void count(Operation operation, const Counts& counts);
  // Requests for buckets and objects, but for those of jobs: whether anybody waits for this node.
  void count_client() { client_requests_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t client_requests() const { return client_requests_.load(std::memory_order_relaxed); }
  uint64_t redirected() const { return redirected_.load(std::memory_order_relaxed); }
  // Those that counted something, operations of one meter added up.
  std::vector<MeterReading> read() const;

 private:
  struct Counted {
    Meter out;
    std::atomic<uint64_t> bytes_in = 0;
    std::atomic<uint64_t> client_errors = 0;
  };
  std::array<Counted, kOperations> counted_;
  std::atomic<uint64_t> redirected_ = 0;
  std::atomic<uint64_t> client_requests_ = 0;
};

}  // namespace millrace::gateway
