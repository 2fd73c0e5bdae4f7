// Inbox: what other threads want done in a loop's thread.
//
// The loop owns it together with everybody who may post later: a drive or a name service may answer when the
// loop is gone. A post after close() is destroyed unrun, in the thread that posted it. post() may be called
// by any thread; take() and close() belong to the loop.
#pragma once

#include <functional>
#include <vector>

#include "base/mutex.h"

namespace millrace::net {

class Inbox {
 public:
  using Work = std::function<void()>;

  Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox();

  void post(Work work);
  // What was posted since, in order.
  std::vector<Work> take();
  // Takes nothing more; gives back what has not run.
  [[nodiscard]] std::vector<Work> close();
  // Readable while something waits to be taken.
  int descriptor() const { return wake_; }

 private:
  const int wake_;  // an eventfd
  Mutex mutex_;
  std::vector<Work> posts_ MR_GUARDED_BY(mutex_);
  bool closed_ MR_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::net
