// Histories that one order explains, and such that none does.
#include <gtest/gtest.h>

#include "cluster/simulation/history.h"

namespace millrace::cluster::simulation {
namespace {

using Kind = Operation::Kind;

Operation put(uint64_t id, uint64_t begin, uint64_t end) {
  return {Kind::kPut, id, begin, end, 0, false};
}
Operation get(uint64_t value, uint64_t begin, uint64_t end) {
  return {Kind::kGet, 0, begin, end, value, false};
}
Operation removal(uint64_t begin, uint64_t end) {
  return {Kind::kRemove, 99, begin, end, 0, false};
}

TEST(HistoryTest, AnAcknowledgedWriteIsSeenByEveryLaterRead) {
  EXPECT_TRUE(is_linearizable({put(1, 1, 2), get(1, 3, 4)}));
  EXPECT_FALSE(is_linearizable({put(1, 1, 2), get(0, 3, 4)}));
  EXPECT_FALSE(is_linearizable({put(1, 1, 2), put(2, 3, 4), get(1, 5, 6)}));
  EXPECT_TRUE(is_linearizable({put(1, 1, 5), put(2, 3, 4), get(1, 6, 7)}));
}

TEST(HistoryTest, ReadersDoNotGoBack) {
  EXPECT_FALSE(is_linearizable({put(1, 1, 10), get(1, 2, 3), get(0, 4, 5)}));
  EXPECT_TRUE(is_linearizable({put(1, 1, 10), get(0, 2, 3), get(1, 4, 5)}));
}

TEST(HistoryTest, AnUnknownWriteHappensLateOrNever) {
  const uint64_t never = Operation::kNever;
  EXPECT_TRUE(is_linearizable({put(1, 1, never), get(0, 5, 6)}));
  EXPECT_TRUE(is_linearizable({put(1, 1, never), get(0, 5, 6), get(1, 7, 8)}));
  EXPECT_FALSE(is_linearizable({put(1, 1, never), get(1, 5, 6), get(0, 7, 8)}));
  EXPECT_FALSE(is_linearizable({get(1, 1, 2), put(1, 3, never)}));
}

TEST(HistoryTest, WhatWasRemovedStaysRemoved) {
  EXPECT_FALSE(is_linearizable({put(1, 1, 2), removal(3, 4), get(1, 5, 6)}));
  EXPECT_TRUE(is_linearizable({put(1, 1, 2), removal(3, 4), get(0, 5, 6)}));
}

TEST(HistoryTest, OfTwoWhoMustBeTheFirstOneIs) {
  const Operation first{Kind::kPutIfAbsent, 1, 1, 5, 0, false};
  const Operation second{Kind::kPutIfAbsent, 2, 2, 6, 0, false};
  const Operation refused{Kind::kPutIfAbsent, 2, 2, 6, 0, true};
  EXPECT_FALSE(is_linearizable({first, second}));
  EXPECT_TRUE(is_linearizable({first, refused, get(1, 7, 8)}));
  EXPECT_FALSE(is_linearizable({refused}));
}

}  // namespace
}  // namespace millrace::cluster::simulation
