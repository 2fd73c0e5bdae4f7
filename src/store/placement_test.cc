// Placement: fair by weight, and little moves when drives come and go.
#include "store/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/hash.h"
#include "store/version.h"

namespace millrace::store {
namespace {

constexpr int kObjects = 40'000;

std::vector<PlacementTarget> targets(size_t count) {
  std::vector<PlacementTarget> list;
  for (size_t i = 0; i < count; ++i) list.push_back({hash64("drive" + std::to_string(i)), 1000.0});
  return list;
}

uint64_t object(int number) {
  return placement_hash("bucket", "shard-" + std::to_string(number) + ".tar");
}

TEST(PlacementTest, SpreadsByWeight) {
  auto list = targets(4);
  list[3].weight = 3000.0;
  std::vector<int> counts(4);
  for (int i = 0; i < kObjects; ++i) ++counts[place_first(object(i), list)];
  for (size_t drive = 0; drive < 4; ++drive) {
    const double share = drive == 3 ? 0.5 : 1.0 / 6;
    EXPECT_NEAR(counts[drive], kObjects * share, kObjects * 0.01) << drive;
  }
}

TEST(PlacementTest, ANewDriveTakesOnlyItsShare) {
  const auto before = targets(4);
  const auto after = targets(5);
  int moved = 0;
  for (int i = 0; i < kObjects; ++i) {
    const size_t old_place = place_first(object(i), before);
    const size_t new_place = place_first(object(i), after);
    if (old_place == new_place) continue;
    EXPECT_EQ(new_place, 4u);
    ++moved;
  }
  EXPECT_NEAR(moved, kObjects / 5, kObjects * 0.01);
}

TEST(PlacementTest, TheOrderBeginsWithTheFirstAndNamesAll) {
  const auto list = targets(6);
  for (int i = 0; i < 100; ++i) {
    auto order = place(object(i), list);
    EXPECT_EQ(order.front(), place_first(object(i), list));
    std::ranges::sort(order);
    EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(VersionTest, NeverGoesBack) {
  VersionClock clock;
  const uint64_t first = clock.next();
  EXPECT_GT(clock.next(), first);
  const uint64_t ahead = first + (uint64_t{1} << 40);
  clock.observe(ahead);
  EXPECT_EQ(clock.next(), ahead + 1);
  clock.observe(first);
  EXPECT_EQ(clock.next(), ahead + 2);
}

}  // namespace
}  // namespace millrace::store
