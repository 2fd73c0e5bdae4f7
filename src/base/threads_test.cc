// Work on several threads, all of them joined.
#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

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

TEST(ThreadsTest, EachNumberIsTakenOnce) {
  std::vector<std::atomic<int>> taken(1000);
  const auto take = [&](size_t number) -> Status {
    ++taken[number];
    return {};
  };
  for (const unsigned threads : {0U, 1U, 7U, 5000U}) {
    for (auto& count : taken) count = 0;
    ASSERT_TRUE(run_each(taken.size(), threads, take));
    for (const auto& count : taken) EXPECT_EQ(count, 1);
  }
  ASSERT_TRUE(run_each(0, 4, [](size_t) -> Status { return make_error(Code::kInvalid, "there is none"); }));
}

TEST(ThreadsTest, NothingIsBegunAfterAFailure) {
  std::atomic<size_t> begun = 0;
  const Status done = run_each(1000, 1, [&](size_t number) -> Status {
    ++begun;
    if (number == 3) return make_error(Code::kCorrupt, "number {}", number);
    return {};
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), Code::kCorrupt);
  EXPECT_EQ(done.error().message(), "number 3");
  EXPECT_EQ(begun, 4U);
}

TEST(ThreadsTest, TheForegroundKnowsHowManyServeIt) {
  unsigned serving = 0;
  ASSERT_TRUE(run_threads_beside(3, [] {}, [&](unsigned started) { serving = started; }));
  EXPECT_EQ(serving, 3U);
}

}  // namespace
}  // namespace millrace
