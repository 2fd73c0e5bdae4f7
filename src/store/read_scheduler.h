// ReadScheduler: decides which stream's window a drive reads next.
//
// First come, first served, a few at a time: every stream asks for one window, gets it whole and asks again,
// so with a hundred streams a rotational drive still sees reads of a whole window each, one after the other.
// What "reading" means is given from outside, so that the schedule can be tested against a drive of known
// cost. Prefetches wait until no one waits for a window. Any thread may ask.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace millrace::store {

class ReadScheduler {
 public:
  using Job = std::function<void()>;
  static constexpr size_t kMostPrefetches = 64;  // more are dropped: they only save time

  explicit ReadScheduler(unsigned at_a_time);
  ~ReadScheduler();

  // False after stop(): the job was not taken.
  bool read(Job job);
  void prefetch(Job job);
  // Finishes the reads that wait, forgets the prefetches.
  void stop();
  size_t waiting() const;

 private:
  void run();

  mutable Mutex mutex_;
  ConditionVariable filled_;
  std::deque<Job> reads_ MR_GUARDED_BY(mutex_);  // one per stream
  std::deque<Job> prefetches_ MR_GUARDED_BY(mutex_);
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace millrace::store
