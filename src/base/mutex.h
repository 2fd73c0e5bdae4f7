// Mutexes that the compiler checks: a member says which mutex guards it (MR_GUARDED_BY), a function says
// which one its caller holds (MR_REQUIRES), and clang refuses code that does otherwise
// (-Werror=thread-safety).
//
// Thin names for the standard's: nothing is added at run time. A mutex outlives its locks; a lock belongs to
// the function that made it.
//
// A condition is waited for in a loop, or with a predicate that says what it needs:
//   changed_.wait(lock, [this]() MR_REQUIRES(mutex_) { return stopped_; });
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#if defined(__clang__)
#define MR_ATTRIBUTE(x) __attribute__((x))
#else
#define MR_ATTRIBUTE(x)
#endif
#define MR_CAPABILITY(name) MR_ATTRIBUTE(capability(name))
#define MR_SCOPED_CAPABILITY MR_ATTRIBUTE(scoped_lockable)
#define MR_GUARDED_BY(...) MR_ATTRIBUTE(guarded_by(__VA_ARGS__))
#define MR_POINTEE_GUARDED_BY(...) MR_ATTRIBUTE(pt_guarded_by(__VA_ARGS__))
#define MR_REQUIRES(...) MR_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define MR_REQUIRES_SHARED(...) MR_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define MR_EXCLUDES(...) MR_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define MR_ACQUIRE(...) MR_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define MR_ACQUIRE_SHARED(...) MR_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define MR_RELEASE(...) MR_ATTRIBUTE(release_capability(__VA_ARGS__))
#define MR_RELEASE_SHARED(...) MR_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define MR_RELEASE_GENERIC(...) MR_ATTRIBUTE(release_generic_capability(__VA_ARGS__))
#define MR_TRY_ACQUIRE(...) MR_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define MR_RETURN_CAPABILITY(x) MR_ATTRIBUTE(lock_returned(x))
// For what the analysis cannot follow; the reason stands beside each use.
#define MR_UNCHECKED_LOCKS MR_ATTRIBUTE(no_thread_safety_analysis)

namespace millrace {

class MR_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() MR_ACQUIRE() { mutex_.lock(); }
  void unlock() MR_RELEASE() { mutex_.unlock(); }
  bool try_lock() MR_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class UniqueLock;
  std::mutex mutex_;
};

// Held from here to the end of the block.
class MR_SCOPED_CAPABILITY [[nodiscard]] MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MR_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() MR_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// One that can be let go early and taken again, and that a ConditionVariable can wait with.
class MR_SCOPED_CAPABILITY [[nodiscard]] UniqueLock {
 public:
  explicit UniqueLock(Mutex& mutex) MR_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~UniqueLock() MR_RELEASE() = default;
  UniqueLock(const UniqueLock&) = delete;
  UniqueLock& operator=(const UniqueLock&) = delete;

  void lock() MR_ACQUIRE() { lock_.lock(); }
  void unlock() MR_RELEASE() { lock_.unlock(); }

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

class ConditionVariable {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  // Callers of these two look again themselves: waits end also without a reason.
  void wait(UniqueLock& lock) { condition_.wait(lock.lock_); }
  template <typename Rep, typename Period>
  void wait_for(UniqueLock& lock, std::chrono::duration<Rep, Period> most) {
    condition_.wait_for(lock.lock_, most);
  }
  // The predicate runs with the mutex held, which only the standard's code behind it could show.
  template <typename Predicate>
  void wait(UniqueLock& lock, Predicate met) MR_UNCHECKED_LOCKS {
    condition_.wait(lock.lock_, std::move(met));
  }
  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(UniqueLock& lock, std::chrono::duration<Rep, Period> most, Predicate met) MR_UNCHECKED_LOCKS {
    return condition_.wait_for(lock.lock_, most, std::move(met));
  }
  template <typename Clock, typename Duration, typename Predicate>
  bool wait_until(UniqueLock& lock, std::chrono::time_point<Clock, Duration> end,
                  Predicate met) MR_UNCHECKED_LOCKS {
    return condition_.wait_until(lock.lock_, end, std::move(met));
  }

 private:
  std::condition_variable condition_;
};

// Many readers or one writer.
class MR_CAPABILITY("shared mutex") SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() MR_ACQUIRE() { mutex_.lock(); }
  void unlock() MR_RELEASE() { mutex_.unlock(); }
  void lock_shared() MR_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() MR_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class MR_SCOPED_CAPABILITY [[nodiscard]] WriteLock {
 public:
  explicit WriteLock(SharedMutex& mutex) MR_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriteLock() MR_RELEASE() { mutex_.unlock(); }
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class MR_SCOPED_CAPABILITY [[nodiscard]] ReadLock {
 public:
  explicit ReadLock(SharedMutex& mutex) MR_ACQUIRE_SHARED(mutex) : mutex_(mutex) { mutex_.lock_shared(); }
  ~ReadLock() MR_RELEASE() { mutex_.unlock_shared(); }
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace millrace
