// Threads that never outlive the call.
#include "base/threads.h"

#include <algorithm>
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

}  // namespace millrace
