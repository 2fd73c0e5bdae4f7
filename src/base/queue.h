// BoundedQueue: hands values from threads to threads, never holding more than its capacity.
//
// push() waits for room and pop() for a value; close() ends both: later pushes are refused, pops drain
// what is left and then see the end. Thread-safe; outlives its users.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/mutex.h"

namespace millrace {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) { MR_ASSERT(capacity > 0); }

  // False when the queue was closed: the value was not taken.
  [[nodiscard]] bool push(T value) {
    UniqueLock lock(mutex_);
    room_.wait(lock, [&]() MR_REQUIRES(mutex_) { return closed_ || values_.size() < capacity_; });
    if (closed_) return false;
    values_.push_back(std::move(value));
    lock.unlock();
    filled_.notify_one();
    return true;
  }

  std::optional<T> pop() {
    UniqueLock lock(mutex_);
    filled_.wait(lock, [&]() MR_REQUIRES(mutex_) { return closed_ || !values_.empty(); });
    if (values_.empty()) return std::nullopt;
    std::optional<T> value(std::move(values_.front()));
    values_.pop_front();
    lock.unlock();
    room_.notify_one();
    return value;
  }

  void close() {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    room_.notify_all();
    filled_.notify_all();
  }

 private:
  const size_t capacity_;
  Mutex mutex_;
  ConditionVariable room_;
  ConditionVariable filled_;
  std::deque<T> values_ MR_GUARDED_BY(mutex_);
  bool closed_ MR_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace
