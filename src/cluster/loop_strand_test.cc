// Order, timers and the end of a strand with a thread of its own.
#include "cluster/loop_strand.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

namespace millrace::cluster {
namespace {

// Waits until everything that was posted before has run.
void settle(LoopStrand& strand) {
  std::promise<void> reached;
  strand.post([&] { reached.set_value(); });
  reached.get_future().wait();
}

TEST(LoopStrandTest, RunsWorkInTheOrderOfPostingOnOneThread) {
  LoopStrand strand;
  std::vector<int> seen;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    strand.post([&, i] {
      seen.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  settle(strand);
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
  for (const std::thread::id id : threads) EXPECT_EQ(id, threads[0]);
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(LoopStrandTest, WorkThatPostsIsNotInterruptedByWhatItPosts) {
  LoopStrand strand;
  std::vector<std::string> seen;
  std::promise<void> ended;
  strand.post([&] {
    strand.post([&] {
      seen.push_back("inner");
      ended.set_value();
    });
    seen.push_back("outer");
  });
  ended.get_future().wait();
  EXPECT_EQ(seen, (std::vector<std::string>{"outer", "inner"}));
}

TEST(LoopStrandTest, TimersComeInTheOrderOfTheirTimesAndNeverEarly) {
  LoopStrand strand;
  std::vector<std::string> seen;
  std::promise<void> ended;
  const uint64_t began = strand.now_us();
  uint64_t late_at = 0;
  // From the strand: both are armed in the same round.
  strand.post([&] {
    strand.after(20'000, [&] {
      seen.push_back("late");
      late_at = strand.now_us();
      ended.set_value();
    });
    strand.after(1'000, [&] { seen.push_back("early"); });
    strand.after(0, [&] { seen.push_back("at once"); });
  });
  ended.get_future().wait();
  settle(strand);
  EXPECT_EQ(seen, (std::vector<std::string>{"at once", "early", "late"}));
  EXPECT_GE(late_at, began + 20'000);
}

TEST(LoopStrandTest, RandomNumbersDifferFromStrandToStrand) {
  const auto draw = [] {
    LoopStrand strand;
    std::promise<uint64_t> drawn;
    strand.post([&] { drawn.set_value(strand.random()); });
    return drawn.get_future().get();
  };
  EXPECT_NE(draw(), draw());
}

TEST(LoopStrandTest, WhatHasNotRunWhenItStopsIsDropped) {
  LoopStrand strand;
  auto token = std::make_shared<int>(0);
  strand.after(3'600'000'000, [token] { ++*token; });
  settle(strand);
  EXPECT_EQ(token.use_count(), 2);
  strand.stop();
  EXPECT_TRUE(strand.is_stopped());
  EXPECT_EQ(token.use_count(), 1);
  strand.post([token] { ++*token; });
  strand.after(0, [token] { ++*token; });
  EXPECT_EQ(token.use_count(), 1);
  strand.stop();
  EXPECT_EQ(*token, 0);
}

}  // namespace
}  // namespace millrace::cluster
