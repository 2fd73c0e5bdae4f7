// The reader threads of one drive.
#include "store/read_scheduler.h"

#include "base/mutex.h"

namespace millrace::store {

ReadScheduler::ReadScheduler(unsigned at_a_time) {
  for (unsigned i = 0; i < at_a_time; ++i) threads_.emplace_back([this] { run(); });
}

ReadScheduler::~ReadScheduler() {
  stop();
}

bool ReadScheduler::read(Job job) {
  {
    const MutexLock lock(mutex_);
    if (stopped_) return false;
    reads_.push_back(std::move(job));
  }
  filled_.notify_one();
  return true;
}

void ReadScheduler::prefetch(Job job) {
  {
    const MutexLock lock(mutex_);
    if (stopped_ || prefetches_.size() >= kMostPrefetches) return;
    prefetches_.push_back(std::move(job));
  }
  filled_.notify_one();
}

void ReadScheduler::stop() {
  std::deque<Job> forgotten;  // ends without the lock: what jobs hold may be the last of its kind
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    forgotten.swap(prefetches_);
  }
  filled_.notify_all();
  threads_.clear();
}

size_t ReadScheduler::waiting() const {
  const MutexLock lock(mutex_);
  return reads_.size();
}

void ReadScheduler::run() {
  while (true) {
    UniqueLock lock(mutex_);
    filled_.wait(lock,
                 [&]() MR_REQUIRES(mutex_) { return stopped_ || !reads_.empty() || !prefetches_.empty(); });
    std::deque<Job>& queue = reads_.empty() ? prefetches_ : reads_;
    if (queue.empty()) return;
    Job job = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    job();
  }
}

}  // namespace millrace::store
