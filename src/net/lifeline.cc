// Sockets shut down from outside wake whoever waits for them.
#include "net/lifeline.h"

#include <sys/socket.h>

#include <chrono>

#include "base/mutex.h"

namespace millrace::net {

Error cut_off() {
  return make_error(Code::kCancelled, "the connection was given up on request");
}

void Lifeline::cut() {
  {
    const MutexLock lock(mutex_);
    cut_ = true;
    for (const int descriptor : sockets_) ::shutdown(descriptor, SHUT_RDWR);
  }
  was_cut_.notify_all();
}

Status Lifeline::pause(int64_t ms) {
  UniqueLock lock(mutex_);
  if (was_cut_.wait_for(lock, std::chrono::milliseconds(ms), [&]() MR_REQUIRES(mutex_) { return cut_; }))
    return cut_off();
  return {};
}

bool Lifeline::attach(int descriptor) {
  const MutexLock lock(mutex_);
  if (cut_) return false;
  sockets_.insert(descriptor);
  return true;
}

void Lifeline::detach(int descriptor) {
  const MutexLock lock(mutex_);
  sockets_.erase(descriptor);
}

}  // namespace millrace::net
