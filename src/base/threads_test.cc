// Work on several threads, all of them joined.
#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>

namespace millrace {
namespace {

TEST(ThreadsTest, AllThreadsHaveRunWhenItReturns) {
  std::atomic<int> runs = 0;
  ASSERT_TRUE(run_threads(5, [&] { ++runs; }));
  EXPECT_EQ(runs, 5);
}

TEST(ThreadsTest, NoneStillMeansOne) {
  std::atomic<int> runs = 0;
  ASSERT_TRUE(run_threads(0, [&] { ++runs; }));
  EXPECT_EQ(runs, 1);
}

TEST(ThreadsTest, AnAbsurdNumberIsCapped) {
  std::atomic<unsigned> runs = 0;
  ASSERT_TRUE(run_threads(1'000'000, [&] { ++runs; }));
  EXPECT_LE(runs, kMaxThreads);
  EXPECT_GE(runs, 1U);
}

TEST(ThreadsTest, TheForegroundKnowsHowManyServeIt) {
  unsigned serving = 0;
  ASSERT_TRUE(run_threads_beside(3, [] {}, [&](unsigned started) { serving = started; }));
  EXPECT_EQ(serving, 3U);
}

}  // namespace
}  // namespace millrace
