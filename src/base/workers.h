// Workers: a few threads that do blocking work in the order it came.
//
// Bounded: submit() refuses what would wait behind too many others, rather than let a queue grow without end.
// stop() finishes what was queued; work submitted after it is refused. Any thread may submit.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace millrace {

class Workers {
 public:
  explicit Workers(unsigned threads, size_t most_waiting = 4096);
  ~Workers();

  // False when too many wait, or after stop(): the work was not taken.
  [[nodiscard]] bool submit(std::function<void()> work);
  void stop();
  size_t waiting() const;

 private:
  void run();

  const size_t most_waiting_;
  mutable Mutex mutex_;
  ConditionVariable filled_;
  std::deque<std::function<void()>> queue_ MR_GUARDED_BY(mutex_);
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace millrace
