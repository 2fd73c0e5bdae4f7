// Snapshot: an immutable value that many read and few replace whole.
//
// A mutex around a shared_ptr: std::atomic<std::shared_ptr> spins while another thread copies, and with more
// threads than cores it spent 11 % of all time doing so. Any thread.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace millrace {

template <typename T>
class Snapshot {
 public:
  Snapshot() = default;
  explicit Snapshot(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  std::shared_ptr<const T> load() const {
    const MutexLock lock(mutex_);
    return value_;
  }
  void store(std::shared_ptr<const T> value) {
    // The old one is let go with the argument, after the lock.
    const MutexLock lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const T> value_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace
