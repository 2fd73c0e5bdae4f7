// Progress: how far a job is, counted by its threads and drawn for a person.
//
// A job adds what it has done; a ProgressBar, where a terminal is there to see it, redraws a line a few
// times a second until it is destroyed. Counters are atomic; a job that nobody watches pays one add.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/background.h"

namespace millrace {

class Progress {
 public:
  void add(uint64_t bytes, uint64_t items) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    items_.fetch_add(items, std::memory_order_relaxed);
  }
  void expect(uint64_t bytes) { expected_bytes_.store(bytes, std::memory_order_relaxed); }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t items() const { return items_.load(std::memory_order_relaxed); }
  uint64_t expected_bytes() const { return expected_bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> items_ = 0;           // samples, or objects of a transfer
  std::atomic<uint64_t> expected_bytes_ = 0;  // 0: unknown
};

// "sharding  [######····]  61 %  1.2 GB  840 MB/s  11 k samples  0:02 left"
struct ProgressWords {
  std::string what;               // "sharding"
  std::string items = "samples";  // what is counted beside the bytes
};
std::string progress_line(const Progress& progress, const ProgressWords& words, double seconds);

class ProgressBar {
 public:
  ProgressBar(const Progress& progress, ProgressWords words);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

 private:
  void draw() const;

  const Progress& progress_;
  const ProgressWords words_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  const bool is_shown_;
  Background drawing_;
};

}  // namespace millrace
