// A list behind a mutex, and an eventfd that wakes the loop.
#include "net/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/assert.h"

namespace millrace::net {

Inbox::Inbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  MR_ASSERT(wake_ >= 0, "errno {}", errno);
}

Inbox::~Inbox() {
  ::close(wake_);
}

// Work that is refused goes with the parameter, after the mutex was released: what it carries may post again
// when it goes.
void Inbox::post(Work work) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    first = posts_.empty();
    posts_.push_back(std::move(work));
  }
  if (!first) return;
  const uint64_t one = 1;
  const ssize_t written = ::write(wake_, &one, sizeof one);
  static_cast<void>(written);  // full means that it is awake already
}

std::vector<Inbox::Work> Inbox::take() {
  uint64_t count = 0;
  const ssize_t got = ::read(wake_, &count, sizeof count);
  static_cast<void>(got);
  const MutexLock lock(mutex_);
  return std::exchange(posts_, {});
}

std::vector<Inbox::Work> Inbox::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  return std::exchange(posts_, {});
}

}  // namespace millrace::net
