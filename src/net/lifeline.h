// Lifeline: how one thread ends the blocking network calls of others.
//
// Connections hang on it while they are open. cut() shuts them all down, wakes who pauses between attempts,
// and lets nothing be opened any more: every call then fails soon with kCancelled. Thread-safe; for good.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "base/mutex.h"
#include "base/result.h"

namespace millrace::net {

class Lifeline {
 public:
  void cut();
  // Sleeps; an error when cut before or meanwhile.
  Status pause(int64_t ms);

  // Of sockets, by whoever owns them. False: it is cut already.
  [[nodiscard]] bool attach(int descriptor);
  void detach(int descriptor);

 private:
  Mutex mutex_;
  ConditionVariable was_cut_;
  std::unordered_set<int> sockets_ MR_GUARDED_BY(mutex_);
  bool cut_ MR_GUARDED_BY(mutex_) = false;
};

Error cut_off();

}  // namespace millrace::net
