// SharedWork: work that several threads ask for at once is done once, and all of them get its result.
//
// Whoever asks first does the work on his own thread; the others wait. Results are not kept. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "base/result.h"

namespace millrace {

template <typename Key, typename T>
class SharedWork {
 public:
  // Blocks.
  Result<T> run(const Key& key, const std::function<Result<T>()>& work) {
    const auto mine = std::make_shared<Outcome>();
    {
      UniqueLock lock(mutex_);
      const auto [found, is_first] = running_.try_emplace(key, mine);
      if (!is_first) {
        const std::shared_ptr<Outcome> theirs = found->second;
        changed_.wait(lock, [&]() MR_REQUIRES(mutex_) { return theirs->has_value(); });
        return copy(**theirs);
      }
    }
    Result<T> result = work();
    {
      const MutexLock lock(mutex_);
      *mine = copy(result);
      running_.erase(key);
    }
    changed_.notify_all();
    return result;
  }

 private:
  using Outcome = std::optional<Result<T>>;
  static Result<T> copy(const Result<T>& result) {
    return result ? Result<T>(*result) : Result<T>(result.error().copy());
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::map<Key, std::shared_ptr<Outcome>> running_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace
