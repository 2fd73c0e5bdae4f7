// Starts and joins the threads of a call.
#include "base/threads.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace millrace {

Status run_threads_beside(unsigned count, const std::function<void()>& work,
                          const std::function<void(unsigned started)>& foreground) {
  std::vector<std::jthread> threads;
  std::string refused;
  for (unsigned i = 0; i < std::min(count, kMaxThreads) && refused.empty(); ++i) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error& failure) {
      refused = failure.what();
    }
  }
  foreground(static_cast<unsigned>(threads.size()));
  if (threads.empty() && !refused.empty()) return make_error(Code::kIo, "starting a thread: {}", refused);
  return {};
}

Status run_threads(unsigned count, const std::function<void()>& work) {
  return run_threads_beside(std::max(count, 1U), work, [](unsigned) {});
}

void FirstError::note(Error error) {
  const MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
  is_noted_ = true;
}

Status FirstError::take() {
  const MutexLock lock(mutex_);
  is_noted_ = false;
  std::optional<Error> first = std::exchange(error_, std::nullopt);
  if (first) return std::move(*first);
  return {};
}

Status run_each(size_t count, unsigned threads, const std::function<Status(size_t number)>& work) {
  if (count == 0) return {};
  std::atomic<size_t> next = 0;
  FirstError failure;
  MR_TRY(run_threads(static_cast<unsigned>(std::min<size_t>(threads, count)), [&] {
    for (size_t number = next++; number < count && !failure.is_noted(); number = next++) {
      auto done = work(number);
      if (!done) failure.note(done.take_error());
    }
  }));
  return failure.take();
}

}  // namespace millrace
