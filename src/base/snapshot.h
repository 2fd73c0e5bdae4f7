// Snapshot: an immutable value that many read and few replace whole.
//
// A mutex around a shared_ptr: std::atomic<std::shared_ptr> spins while another thread copies, and with more
// threads than cores it spent 11 % of all time doing so. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace millrace {

template <typename T>
class Snapshot {
 public:
  Snapshot() = default;
  explicit Snapshot(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  std::shared_ptr<const T> load() const {
    std::lock_guard lock(mutex_);
    return value_;
  }
  void store(std::shared_ptr<const T> value) {
    // The old one is let go with the argument, after the lock.
    std::lock_guard lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;  // guarded by mutex_
};

}  // namespace millrace
