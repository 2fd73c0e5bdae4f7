// Tests that the wrappers behave as the standard mutexes. testing/unlocked.cc tests that the compiler refuses
// wrong code.
#include "base/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace millrace {
namespace {

class Counter {
 public:
  void add() {
    {
      const MutexLock lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  void wait_until(int wanted) {
    UniqueLock lock(mutex_);
    changed_.wait(lock, [this, wanted]() MR_REQUIRES(mutex_) { return count_ >= wanted; });
  }
  bool wait_a_moment(int wanted) {
    UniqueLock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(1),
                             [this, wanted]() MR_REQUIRES(mutex_) { return count_ >= wanted; });
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  int count_ MR_GUARDED_BY(mutex_) = 0;
};

TEST(MutexTest, WhatIsGuardedIsCountedOnce) {
  Counter counter;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&counter] {
      for (int j = 0; j < 1000; ++j) counter.add();
    });
  }
  counter.wait_until(4000);
  EXPECT_FALSE(counter.wait_a_moment(4001));
}

TEST(MutexTest, AUniqueLockIsLetGoAndTakenAgain) {
  Mutex mutex;
  UniqueLock lock(mutex);
  lock.unlock();
  if (mutex.try_lock()) {
    mutex.unlock();
  } else {
    ADD_FAILURE() << "still held";
  }
  lock.lock();
}

TEST(MutexTest, ReadersShare) {
  SharedMutex mutex;
  {
    const ReadLock first(mutex);
    std::jthread([&mutex] { const ReadLock second(mutex); }).join();
  }
  const WriteLock alone(mutex);
}

}  // namespace
}  // namespace millrace
