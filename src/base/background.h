// Background: one thread that does a task again and again: every so often, and at once when it is woken.
//
// The first round begins at start(). wake() during a round means another round behind it, so nothing that was
// there before wake() is overlooked. stop() waits for the round under way, which asks goes_on() between its
// steps or waits by pause(). wake() and goes_on() may be called by any thread, start() and stop() by the
// owner.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace millrace {

class Background {
 public:
  Background() = default;
  ~Background() { stop(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Rounds only when woken, for `every`: the task outlives the thread's last round.
  static constexpr std::chrono::milliseconds kWhenWoken = std::chrono::milliseconds::max();
  void start(std::chrono::milliseconds every, std::function<void()> task);
  void wake();
  // Ends the thread; safe to call again, and before start().
  void stop();

  // False once stop() was called.
  bool goes_on() const;
  // Waits so long, or until stop(): then false.
  bool pause(std::chrono::microseconds time);

 private:
  void run();
  // False when there is to be no further round.
  bool wait_for_round();

  std::chrono::milliseconds every_{};
  std::function<void()> task_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool woken_ MR_GUARDED_BY(mutex_) = false;
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace millrace
