// Random: golden values from the published definitions. A change here changes every stored order: never.
#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>
#include <vector>

namespace millrace {
namespace {

TEST(RandomTest, MixGivesTheValuesOfSplitmix64) {
  EXPECT_EQ(mix(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix(1), 0x910a2dec89025cc1u);
  EXPECT_EQ(mix(2), 0x975835de1c9756ceu);
}

TEST(RandomTest, NextGivesTheValuesOfXoshiro256StarStar) {
  const std::array<std::pair<uint64_t, std::array<uint64_t, 4>>, 3> golden = {{
      {0, {0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0, 0x6aa594f1262d2d2c}},
      {1, {0xb3f2af6d0fc710c5, 0x853b559647364cea, 0x92f89756082a4514, 0x642e1c7bc266a3a7}},
      {42, {0x15780b2e0c2ec716, 0x6104d9866d113a7e, 0xae17533239e499a1, 0xecb8ad4703b360a1}},
  }};
  for (const auto& [seed, values] : golden) {
    SCOPED_TRACE(seed);
    Random random(seed);
    for (const uint64_t value : values) EXPECT_EQ(random.next(), value);
  }
}

TEST(RandomTest, BelowGivesTheSameDrawsForEver) {
  Random random(7);
  for (const uint64_t draw : {700, 278, 839, 981, 990, 872, 60, 104}) EXPECT_EQ(random.below(1000), draw);
}

TEST(RandomTest, BelowGivesTheSameDrawsWhereItRejects) {
  Random random(7);
  for (const uint64_t draw :
       {6461677535414237997u, 7744196453246319819u, 9049029322324588832u, 9139072988219048332u}) {
    EXPECT_EQ(random.below((uint64_t{1} << 63) + 1), draw);
  }
}

TEST(RandomTest, UnitGivesTheSameDrawsForEver) {
  Random random(7);
  EXPECT_EQ(random.unit(), 0.7005764821796896);
  EXPECT_EQ(random.unit(), 0.2787512294737843);
}

TEST(RandomTest, ShuffleGivesTheSameOrderForEver) {
  std::vector<int> values(10);
  std::iota(values.begin(), values.end(), 0);
  Random random(2024);
  random.shuffle(std::span(values));
  EXPECT_EQ(values, (std::vector<int>{2, 3, 8, 5, 6, 4, 1, 9, 7, 0}));
}

TEST(RandomTest, ShuffleKeepsEveryValue) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (size_t size = 0; size < 50; ++size) {
    std::vector<size_t> values(size);
    std::iota(values.begin(), values.end(), 0);
    random.shuffle(std::span(values));
    const std::set<size_t> seen(values.begin(), values.end());
    EXPECT_EQ(seen.size(), size);
  }
}

TEST(RandomTest, BelowStaysBelowItsLimitAndReachesAll) {
  constexpr uint64_t kSeed = 3;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (const uint64_t limit : {1, 2, 3, 7, 16}) {
    std::set<uint64_t> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(random.below(limit));
    EXPECT_EQ(seen.size(), limit);
    EXPECT_EQ(*seen.rbegin(), limit - 1);
  }
}

TEST(RandomTest, BelowIsEven) {
  constexpr uint64_t kSeed = 99;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  std::array<int, 10> counts = {};
  for (int i = 0; i < 100'000; ++i) ++counts[random.below(10)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
}

TEST(RandomTest, UnitStaysInItsInterval) {
  constexpr uint64_t kSeed = 4;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (int i = 0; i < 10'000; ++i) {
    const double draw = random.unit();
    EXPECT_GE(draw, 0.0);
    EXPECT_LT(draw, 1.0);
  }
}

TEST(RandomDeathTest, BelowZeroIsABug) {
  Random random(1);
  EXPECT_DEATH(static_cast<void>(random.below(0)), "limit > 0");
}

}  // namespace
}  // namespace millrace
