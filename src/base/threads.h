// Work on several threads, started and joined together.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>

#include "base/mutex.h"
#include "base/result.h"

namespace millrace {

// Most threads that anyone may ask for.
inline constexpr unsigned kMaxThreads = 256;

// Runs `work` on up to `count` threads (at most kMaxThreads) and waits for all. Where the system refuses some
// of them, the others do the work; an error only if not one could be started. `work` takes from shared state
// what it does and returns when there is nothing left.
Status run_threads(unsigned count, const std::function<void()>& work);

// The first of several threads' failures; the others are dropped. Any thread.
class FirstError {
 public:
  void note(Error error);
  bool is_noted() const { return is_noted_.load(std::memory_order_relaxed); }
  // The failure, or none; empty afterwards.
  Status take();

 private:
  std::atomic<bool> is_noted_ = false;
  Mutex mutex_;
  std::optional<Error> error_ MR_GUARDED_BY(mutex_);
};

// work(0) to work(count - 1), each once, taken in turn by up to so many threads. After a failure none is
// begun any more, and the first failure is given back.
Status run_each(size_t count, unsigned threads, const std::function<Status(size_t number)>& work);

// As run_threads, with one more piece of work on the calling thread, which the others serve: `foreground`
// runs while they do, and must make them return in the end. It runs even if no thread could be started.
Status run_threads_beside(unsigned count, const std::function<void()>& work,
                          const std::function<void(unsigned started)>& foreground);

}  // namespace millrace
