// Race: an answer that may come from two sides: from the one who was asked, and from others if that one is
// slow.
//
// The first side that succeeds is the answer; an error is one only if nobody is left. Any thread.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "store/objects.h"

namespace millrace::cluster {

template <typename T>
class Race {
 public:
  // With one side under way.
  explicit Race(store::Done<T> done) : done_(std::move(done)) {}

  // One side is over.
  void end(Result<T> outcome) {
    store::Done<T> answer;
    {
      const MutexLock lock(mutex_);
      --sides_;
      if (outcome || sides_ == 0) answer = std::exchange(done_, nullptr);
    }
    if (answer) answer(std::move(outcome));
  }

  // Whether the second side is to begin now: once, and not after the answer.
  bool hedge() {
    const MutexLock lock(mutex_);
    if (!done_ || std::exchange(hedged_, true)) return false;
    ++sides_;
    return true;
  }

 private:
  Mutex mutex_;
  unsigned sides_ MR_GUARDED_BY(mutex_) = 1;
  bool hedged_ MR_GUARDED_BY(mutex_) = false;
  store::Done<T> done_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::cluster
