// Budget, Charge and Buffer: nothing is ever handed out above the limit, and everything comes back.
#include "base/buffer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"

namespace millrace {
namespace {

TEST(BudgetTest, CountsWhatIsTakenAndGivenBack) {
  Budget budget(100);
  {
    const Charge first = budget.take(60).take();
    EXPECT_EQ(first.bytes(), 60u);
    EXPECT_EQ(budget.used(), 60u);
    const Charge second = budget.take(40).take();
    EXPECT_EQ(budget.used(), 100u);
  }
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(budget.peak(), 100u);
  EXPECT_EQ(budget.limit(), 100u);
}

TEST(BudgetTest, RefusesAtOnceWhatCouldNeverBeFree) {
  Budget budget(100);
  const auto charge = budget.take(101);
  ASSERT_FALSE(charge);
  EXPECT_EQ(charge.error().code(), Code::kTooLarge);
  EXPECT_NE(charge.error().message().find("100 B"), std::string::npos) << charge.error().message();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BudgetTest, AMovedChargeIsGivenBackOnce) {
  Budget budget(100);
  Charge first = budget.take(30).take();
  Charge second = std::move(first);
  EXPECT_EQ(budget.used(), 30u);
  EXPECT_EQ(second.bytes(), 30u);
  second = Charge();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BudgetTest, AssigningAChargeGivesBackTheOldOneAtOnce) {
  Budget budget(100);
  Charge kept = budget.take(30).take();
  Charge other = budget.take(50).take();
  kept = std::move(other);
  EXPECT_EQ(kept.bytes(), 50u);
  EXPECT_EQ(budget.used(), 50u);
}

TEST(BudgetTest, WaitsUntilAnotherThreadGivesBack) {
  Budget budget(100);
  auto held = std::make_unique<Charge>(budget.take(80).take());
  std::latch about_to_wait(1);
  std::atomic<bool> given_back = false;
  std::thread waiter([&] {
    about_to_wait.count_down();
    const Charge charge = budget.take(50).take();
    EXPECT_TRUE(given_back);
  });
  about_to_wait.wait();
  given_back = true;
  held.reset();
  waiter.join();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BudgetTest, ManyThreadsNeverExceedTheLimit) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  Budget budget(1000);
  std::atomic<uint64_t> outside = 0;
  std::atomic<bool> exceeded = false;
  std::vector<std::thread> threads;
  for (uint64_t id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      Random random(kSeed + id);
      for (int i = 0; i < 2000; ++i) {
        const uint64_t bytes = random.below(700);
        const Charge charge = budget.take(bytes).take();
        if (outside.fetch_add(bytes) + bytes > 1000) exceeded = true;
        outside.fetch_sub(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_LE(budget.peak(), 1000u);
}

TEST(BufferTest, IsAlignedAndHoldsAtLeastWhatWasAskedFor) {
  Budget budget(1 << 20);
  for (const size_t capacity : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{100'000}}) {
    Buffer buffer = Buffer::make(budget, capacity).take();
    EXPECT_GE(buffer.capacity(), capacity);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.bytes()) % 64, 0u);
    EXPECT_EQ(budget.used(), buffer.capacity());
    std::memset(buffer.bytes(), 7, buffer.capacity());
    EXPECT_EQ(buffer.span().size(), buffer.capacity());
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BufferTest, AMovedFromBufferIsEmpty) {
  Budget budget(1 << 20);
  Buffer first = Buffer::make(budget, 1000).take();
  const Buffer second = std::move(first);
  EXPECT_EQ(first.capacity(), 0u);  // NOLINT(bugprone-use-after-move): that it is empty is the point
  EXPECT_TRUE(first.span().empty());
  EXPECT_EQ(second.capacity(), 1024u);
  EXPECT_EQ(budget.used(), 1024u);
}

TEST(BufferTest, ReplacingABufferFreesItsBytesForOthers) {
  Budget budget(1024);
  Buffer buffer = Buffer::make(budget, 512).take();
  Buffer other = Buffer::make(budget, 512).take();
  buffer = std::move(other);
  EXPECT_EQ(budget.used(), 512u);
}

TEST(BufferTest, AboveTheLimitIsAnError) {
  Budget budget(1024);
  EXPECT_EQ(Buffer::make(budget, 1025).error().code(), Code::kTooLarge);
  EXPECT_EQ(Buffer::make(budget, std::numeric_limits<size_t>::max()).error().code(), Code::kTooLarge);
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BudgetTest, WhoMustNotWaitIsCalledBackInTurn) {
  Budget budget(100);
  Charge held = budget.take(80).take();
  std::vector<std::pair<char, Charge>> granted;
  const auto ask = [&](char name, uint64_t bytes) {
    return budget.take_later(
        bytes, [&granted, name](Charge charge) { granted.emplace_back(name, std::move(charge)); });
  };
  ASSERT_TRUE(ask('a', 20));
  ASSERT_EQ(granted.size(), 1U);
  ASSERT_TRUE(ask('b', 60));
  // There is room for this one, but it was not first.
  ASSERT_TRUE(ask('c', 1));
  EXPECT_EQ(granted.size(), 1U);
  EXPECT_EQ(ask('d', 101).error().code(), Code::kTooLarge);
  held = Charge();
  ASSERT_EQ(granted.size(), 3U);
  EXPECT_EQ(granted[1].first, 'b');
  EXPECT_EQ(granted[2].second.bytes(), 1U);
  EXPECT_EQ(budget.used(), 81U);
  EXPECT_EQ(budget.take_peak(), 100U);
  EXPECT_EQ(budget.take_peak(), 81U);
}

TEST(BudgetTest, TooManyThatWaitAreRefused) {
  Budget budget(10);
  Charge held = budget.take(10).take();
  std::vector<Charge> granted;
  const auto ask = [&] {
    return budget.take_later(1, [&](Charge charge) { granted.push_back(std::move(charge)); });
  };
  for (size_t i = 0; i < Budget::kMostWaiting; ++i) ASSERT_TRUE(ask());
  EXPECT_EQ(ask().error().code(), Code::kUnavailable);
  held = Charge();
  EXPECT_EQ(granted.size(), 10U);
  // Each that is given back goes to the next.
  size_t given = 0;
  for (; !granted.empty(); ++given) {
    const Charge last = std::move(granted.back());
    granted.pop_back();
  }
  EXPECT_EQ(given, Budget::kMostWaiting);
  EXPECT_EQ(budget.used(), 0U);
}

TEST(ChargeTest, GrowsWhereThereIsRoomAndGivesBack) {
  Budget budget(100);
  Charge charge;
  EXPECT_TRUE(charge.try_grow(budget, 60));
  EXPECT_FALSE(charge.try_grow(budget, 101));
  EXPECT_EQ(charge.bytes(), 60U);
  EXPECT_TRUE(charge.try_grow(budget, 10));
  EXPECT_EQ(budget.used(), 60U);
  charge.shrink(5);
  EXPECT_EQ(budget.used(), 5U);
}

}  // namespace
}  // namespace millrace
