// Starts and joins the threads of a call.
#include "base/threads.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
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

Status run_each(size_t count, unsigned threads, const std::function<Status(size_t number)>& work) {
  if (count == 0) return {};
  std::atomic<size_t> next = 0;
  std::atomic<bool> stopped = false;
  std::mutex mutex;
  std::optional<Error> failure;  // guarded by mutex
  MR_TRY(run_threads(static_cast<unsigned>(std::min<size_t>(threads, count)), [&] {
    for (size_t number = next++; number < count && !stopped; number = next++) {
      auto done = work(number);
      if (done) continue;
      stopped = true;
      const std::lock_guard lock(mutex);
      if (!failure) failure = done.take_error();
    }
  }));
  if (failure) return std::move(*failure);
  return {};
}

}  // namespace millrace
