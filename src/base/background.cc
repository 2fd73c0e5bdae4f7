// Implements Background with a thread, a condition and two flags.
#include "base/background.h"

#include <utility>

#include "base/assert.h"

namespace millrace {

void Background::start(std::chrono::milliseconds every, std::function<void()> task) {
  MR_ASSERT(!thread_.joinable());
  every_ = every;
  task_ = std::move(task);
  thread_ = std::jthread([this] { run(); });
}

void Background::run() {
  do {
    task_();
  } while (wait_for_round());
}

bool Background::wait_for_round() {
  const auto due = [this]() MR_REQUIRES(mutex_) { return stopped_ || woken_; };
  UniqueLock lock(mutex_);
  if (every_ == kWhenWoken) {
    changed_.wait(lock, due);
  } else {
    changed_.wait_for(lock, every_, due);
  }
  woken_ = false;
  return !stopped_;
}

void Background::wake() {
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void Background::stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Background::goes_on() const {
  const MutexLock lock(mutex_);
  return !stopped_;
}

bool Background::pause(std::chrono::microseconds time) {
  UniqueLock lock(mutex_);
  return !changed_.wait_for(lock, time, [this]() MR_REQUIRES(mutex_) { return stopped_; });
}

}  // namespace millrace
