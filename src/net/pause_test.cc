// Timers, pauses and scopes: what ends a wait, in which order, and what a destroyed wait leaves behind.
#include "net/pause.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"

namespace millrace::net {
namespace {

// Notes its number when due.
class NotingTimer final : private Timer {
 public:
  NotingTimer(TimerHeap& heap, int number, std::vector<int>& into)
      : Timer(&heap), number_(number), into_(into) {}
  using Timer::arm;
  using Timer::disarm;

 private:
  void due() override { into_.push_back(number_); }
  const int number_;
  std::vector<int>& into_;
};

TEST(TimerHeapTest, TimersAreDueInTheOrderOfTheirTimesHoweverTheyWereMoved) {
  const uint64_t seed = steady_us();
  SCOPED_TRACE(seed);
  Random random(seed);
  TimerHeap heap;
  std::vector<int> due;
  constexpr int kTimers = 500;
  std::vector<std::unique_ptr<NotingTimer>> timers;
  std::vector<uint64_t> times(kTimers);
  for (int i = 0; i < kTimers; ++i) {
    timers.push_back(std::make_unique<NotingTimer>(heap, i, due));
    timers.back()->arm(random.below(100'000));
  }
  for (size_t i = 0; i < kTimers; ++i) {
    times[i] = random.below(100'000);
    timers[i]->arm(times[i]);
  }
  for (size_t i = 0; i < kTimers; i += 3) timers[i]->disarm();
  for (size_t i = 1; i < kTimers; i += 3) {
    timers[i].reset();
  }
  heap.fire(50'000);
  heap.fire(100'000);
  EXPECT_EQ(due.size(), static_cast<size_t>(kTimers) / 3);
  for (size_t i = 0; i < due.size(); ++i) {
    EXPECT_EQ(due[i] % 3, 2) << "disarmed or destroyed";
    if (i > 0) EXPECT_LE(times[static_cast<size_t>(due[i - 1])], times[static_cast<size_t>(due[i])]);
  }
  EXPECT_EQ(heap.first_us(), UINT64_MAX);
}

Task<void> note_after(Loop* loop, uint64_t until_us, char letter, std::string* into) {
  const auto slept = co_await sleep_until(*loop, until_us);
  EXPECT_TRUE(slept);
  EXPECT_GE(steady_us(), until_us);
  *into += letter;
  if (into->size() == 3) loop->stop();
}

TEST(PauseTest, SleepersGoOnInTheOrderOfTheirTimesAndNeverEarly) {
  Loop loop;
  std::string said;
  const uint64_t now = steady_us();
  loop.spawn(note_after(&loop, now + 4'000, 'c', &said));
  loop.spawn(note_after(&loop, now + 1'000, 'a', &said));
  loop.spawn(note_after(&loop, now + 2'500, 'b', &said));
  loop.run();
  EXPECT_EQ(said, "abc");
}

Task<void> sleep_forever(Loop* loop, Cancellation* scope, std::vector<Code>* ended, size_t most) {
  const auto slept = co_await sleep_until(*loop, Pause::kForever, scope);
  EXPECT_FALSE(slept);
  if (!slept) ended->push_back(slept.error().code());
  if (ended->size() == most) loop->stop();
}

TEST(PauseTest, ACancelledScopeEndsEveryWaitInIt) {
  Loop loop;
  Cancellation scope;
  std::vector<Code> ended;
  for (int i = 0; i < 10; ++i) loop.spawn(sleep_forever(&loop, &scope, &ended, 10));
  loop.post([&] { scope.cancel(); });
  loop.run();
  EXPECT_EQ(ended, std::vector<Code>(10, Code::kCancelled));
  loop.spawn(sleep_forever(&loop, &scope, &ended, 0));
  EXPECT_EQ(ended.size(), 11U) << "what begins later ends at once";
}

TEST(PauseTest, AScopeEndsWithTheOneAroundItAndNotTheOtherWayRound) {
  Loop loop;
  Cancellation outer;
  Cancellation inner(&outer);
  Cancellation beside(&outer);
  std::vector<Code> ended;
  loop.spawn(sleep_forever(&loop, &inner, &ended, 9));
  loop.spawn(sleep_forever(&loop, &beside, &ended, 9));
  inner.cancel();
  EXPECT_EQ(ended.size(), 1U);
  EXPECT_FALSE(outer.is_cancelled());
  outer.cancel();
  EXPECT_EQ(ended.size(), 2U);
  EXPECT_TRUE(beside.is_cancelled());
  EXPECT_TRUE(Cancellation(&outer).is_cancelled());
}

TEST(PauseTest, AScopeWithATimeEndsItsWaitsAsLate) {
  Loop loop;
  Cancellation outer;
  Cancellation late(loop, steady_us() + 2'000, &outer);
  Cancellation inside(&late);
  std::vector<Code> ended;
  loop.spawn(sleep_forever(&loop, &inside, &ended, 1));
  loop.run();
  EXPECT_EQ(ended, std::vector<Code>{Code::kUnavailable});
  EXPECT_FALSE(outer.is_cancelled());
}

// The wait ends the scope's owner while the scope is still telling the others.
Task<void> own_a_scope(Loop* loop, Cancellation** shown, std::vector<Code>* ended) {
  Cancellation scope;
  *shown = &scope;
  const auto slept = co_await sleep_until(*loop, Pause::kForever, &scope);
  ended->push_back(slept.error().code());
}

TEST(PauseTest, AScopeMayGoInTheMiddleOfItsCancelling) {
  Loop loop;
  Cancellation* scope = nullptr;
  std::vector<Code> ended;
  loop.spawn(own_a_scope(&loop, &scope, &ended));
  scope->cancel();
  EXPECT_EQ(ended.size(), 1U);
}

Task<void> wait_to_be_woken(Loop* loop, Pause** shown, std::vector<Pause::End>* ended) {
  Pause pause(*loop, steady_us() + 60'000'000, nullptr);
  *shown = &pause;
  const Pause::End end = co_await pause;
  ended->push_back(end);
}

TEST(PauseTest, WhoeverIsWokenForgetsItsTime) {
  Loop loop;
  Pause* pause = nullptr;
  std::vector<Pause::End> ended;
  loop.spawn(wait_to_be_woken(&loop, &pause, &ended));
  pause->wake();
  EXPECT_EQ(ended, std::vector{Pause::End::kWoken});
  EXPECT_EQ(loop.timers().first_us(), UINT64_MAX);
}

TEST(PauseTest, ALoopThatGoesAwayForgetsTimersAndScopes) {
  Cancellation scope;
  std::vector<Code> ended;
  bool told = false;
  {
    Loop loop;
    loop.spawn(sleep_forever(&loop, &scope, &ended, 1));
    loop.spawn(sleep_forever(&loop, nullptr, &ended, 1));
    std::string said;
    loop.spawn(note_after(&loop, steady_us() + 60'000'000, 'x', &said));
    loop.at_end([&] {
      told = true;
      EXPECT_EQ(loop.timers().first_us(), UINT64_MAX) << "the tasks went before";
    });
  }
  scope.cancel();
  EXPECT_TRUE(ended.empty());
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace millrace::net
