// Who waits for a stretch that is on its way, and who has to bring it.
#include "store/running_reads.h"

#include <gtest/gtest.h>

namespace millrace::store {
namespace {

TEST(RunningReadsTest, WhoeverNeedsBytesThatAreOnTheirWayWaitsForThem) {
  RunningReads reads;
  int called = 0;
  const auto waiter = [&called] { ++called; };
  EXPECT_FALSE(reads.wait({0, 0, 10}, waiter));
  const uint64_t number = reads.begin({0, 100, 50});
  EXPECT_TRUE(reads.wait({0, 100, 50}, waiter));
  EXPECT_TRUE(reads.wait({0, 149, 1}, waiter));
  const auto waiters = reads.finish(number);
  EXPECT_EQ(waiters.size(), 2u);
  EXPECT_EQ(called, 0);
  for (const auto& one : waiters) one();
  EXPECT_EQ(called, 2);
  EXPECT_FALSE(reads.wait({0, 100, 50}, waiter));
}

TEST(RunningReadsTest, NobodyWaitsForAStretchOfWhichOnlyAPartComes) {
  RunningReads reads;
  const uint64_t first = reads.begin({0, 100, 50});
  const uint64_t second = reads.begin({0, 150, 50});
  const auto waiter = [] {};
  EXPECT_FALSE(reads.wait({0, 99, 2}, waiter));
  EXPECT_FALSE(reads.wait({0, 149, 2}, waiter));
  EXPECT_FALSE(reads.wait({1, 100, 50}, waiter));
  EXPECT_TRUE(reads.wait({0, 150, 50}, waiter));
  EXPECT_TRUE(reads.finish(first).empty());
  EXPECT_EQ(reads.finish(second).size(), 1u);
}

}  // namespace
}  // namespace millrace::store
