// Implements the threads and the queue of Workers.
#include "base/workers.h"

#include "base/mutex.h"

namespace millrace {

Workers::Workers(unsigned threads, size_t most_waiting) : most_waiting_(most_waiting) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
  stop();
}

bool Workers::submit(std::function<void()> work) {
  {
    const MutexLock lock(mutex_);
    if (stopped_ || queue_.size() >= most_waiting_) return false;
    queue_.push_back(std::move(work));
  }
  filled_.notify_one();
  return true;
}

void Workers::stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  filled_.notify_all();
  threads_.clear();
}

size_t Workers::waiting() const {
  const MutexLock lock(mutex_);
  return queue_.size();
}

void Workers::run() {
  while (true) {
    UniqueLock lock(mutex_);
    filled_.wait(lock, [&]() MR_REQUIRES(mutex_) { return stopped_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
  }
}

}  // namespace millrace
