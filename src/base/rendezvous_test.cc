// Rendezvous hashing: fair by weight, and little moves when drives come and go.
#include "base/rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/hash.h"

namespace millrace {
namespace {

constexpr int kObjects = 40'000;

std::vector<Target> targets(size_t count) {
  std::vector<Target> list;
  for (size_t i = 0; i < count; ++i) list.push_back({hash64("drive" + std::to_string(i)), 1000.0});
  return list;
}

uint64_t object(int number) {
  return name_hash("bucket", "shard-" + std::to_string(number) + ".tar");
}

TEST(RendezvousTest, SpreadsByWeight) {
  auto list = targets(4);
  list[3].weight = 3000.0;
  std::vector<int> counts(4);
  for (int i = 0; i < kObjects; ++i) ++counts[rendezvous_first(object(i), list)];
  for (size_t drive = 0; drive < 4; ++drive) {
    const double share = drive == 3 ? 0.5 : 1.0 / 6;
    EXPECT_NEAR(counts[drive], kObjects * share, kObjects * 0.01) << drive;
  }
}

TEST(RendezvousTest, ANewDriveTakesOnlyItsShare) {
  const auto before = targets(4);
  const auto after = targets(5);
  int moved = 0;
  for (int i = 0; i < kObjects; ++i) {
    const size_t old_place = rendezvous_first(object(i), before);
    const size_t new_place = rendezvous_first(object(i), after);
    if (old_place == new_place) continue;
    EXPECT_EQ(new_place, 4u);
    ++moved;
  }
  EXPECT_NEAR(moved, kObjects / 5, kObjects * 0.01);
}

TEST(RendezvousTest, TheOrderBeginsWithTheFirstAndNamesAll) {
  const auto list = targets(6);
  for (int i = 0; i < 100; ++i) {
    auto order = rendezvous_order(object(i), list);
    EXPECT_EQ(order.front(), rendezvous_first(object(i), list));
    std::ranges::sort(order);
    EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
  }
}

}  // namespace
}  // namespace millrace
