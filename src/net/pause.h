// Pause: one coroutine's wait that ends by wake(), at a time, or with its scope, whichever comes first.
//
//   Pause pause(loop, steady_us() + 1'000'000, scope);
//   waiters.push_back(&pause);
//   const Pause::End end = co_await pause;
//
// One coroutine awaits it, once, and owns it. Belongs to the loop's thread.
#pragma once

#include <coroutine>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "net/cancellation.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/timer.h"

namespace millrace::net {

class Pause final : private Timer, private CancellationSubscriber {
 public:
  enum class End { kWoken, kTime, kCancelled };
  static constexpr uint64_t kForever = UINT64_MAX;

  Pause(Loop& loop, uint64_t until_us, Cancellation* scope) : Timer(&loop.timers()) {
    if (!subscribe(scope)) {
      end_ = End::kCancelled;
    } else if (until_us != kForever) {
      arm(until_us);
    }
  }

  // The coroutine goes on inside the call. Only the first reason counts.
  void wake() { end(End::kWoken); }

  bool await_ready() const noexcept { return end_.has_value(); }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { waiting_ = waiting; }
  End await_resume() noexcept { return *end_; }

 private:
  void due() override { end(End::kTime); }
  void cancelled() override { end(End::kCancelled); }
  void end(End how) {
    if (end_) return;
    end_ = how;
    disarm();
    unsubscribe();
    if (waiting_) waiting_.resume();
  }

  std::optional<End> end_;
  std::coroutine_handle<> waiting_;
};

// An error only where the scope ends first.
inline Task<Status> sleep_until(Loop& loop, uint64_t until_us, Cancellation* scope = nullptr) {
  Pause pause(loop, until_us, scope);
  const Pause::End end = co_await pause;
  if (end == Pause::End::kCancelled) co_return scope->error();
  co_return Status();
}

}  // namespace millrace::net
