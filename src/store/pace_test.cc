// Which drive is slow, by rounds whose figures are given.
#include "store/pace.h"

#include <gtest/gtest.h>

namespace millrace::store {
namespace {

constexpr uint64_t kSecond_us = 1'000'000;
constexpr uint64_t kMiB = 1 << 20;

// Drives that write so many MiB in a second of work, round after round.
class PaceTest : public ::testing::Test {
 protected:
  std::vector<PaceWatch::Verdict> round(const std::vector<uint64_t>& mib_per_second,
                                        uint64_t busy_us = kSecond_us) {
    drives_.resize(mib_per_second.size());
    for (size_t i = 0; i < drives_.size(); ++i) {
      drives_[i].id = std::to_string(i);
      drives_[i].bytes += mib_per_second[i] * kMiB * busy_us / kSecond_us;
      drives_[i].busy_us += busy_us;
    }
    now_us_ += kSecond_us;
    return watch_.judge(now_us_, drives_);
  }

  PaceWatch watch_;
  std::vector<PaceWatch::Reading> drives_;
  uint64_t now_us_ = 0;
};

TEST_F(PaceTest, ADriveMuchSlowerThanItsPeersRestsAfterAFewRounds) {
  EXPECT_TRUE(round({150, 150, 10}).empty());
  EXPECT_TRUE(round({150, 150, 10}).empty());
  const auto verdicts = round({150, 150, 10});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].id, "2");
  EXPECT_EQ(verdicts[0].bytes_per_second, 10 * kMiB);
  EXPECT_EQ(verdicts[0].peers_bytes_per_second, 150 * kMiB);
  EXPECT_EQ(verdicts[0].rest_us, PaceWatch::kFirstRest_us);
  EXPECT_FALSE(watch_.is_rested(now_us_ + PaceWatch::kFirstRest_us - 1, "2"));
  EXPECT_TRUE(watch_.is_rested(now_us_ + PaceWatch::kFirstRest_us, "2"));
  EXPECT_TRUE(watch_.is_rested(now_us_, "0"));
}

TEST_F(PaceTest, ADriveThatHangsIsSlow) {
  EXPECT_TRUE(round({150, 0}).empty());
  EXPECT_TRUE(round({150, 0}).empty());
  EXPECT_EQ(round({150, 0}).size(), 1u);
}

TEST_F(PaceTest, OneGoodRoundForgivesTheBadOnes) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(round({150, 150, 10}).empty());
    EXPECT_TRUE(round({150, 150, 10}).empty());
    EXPECT_TRUE(round({150, 150, 100}).empty());
  }
}

TEST_F(PaceTest, EachRestIsTwiceTheOneBefore) {
  uint64_t expected_us = PaceWatch::kFirstRest_us;
  for (int i = 0; i < 10; ++i) {
    round({150, 150, 10});
    round({150, 150, 10});
    const auto verdicts = round({150, 150, 10});
    ASSERT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(verdicts[0].rest_us, expected_us);
    expected_us = std::min(2 * expected_us, PaceWatch::kLongestRest_us);
  }
  round({150, 150, 150});
  round({150, 150, 10});
  round({150, 150, 10});
  EXPECT_EQ(round({150, 150, 10}).at(0).rest_us, PaceWatch::kFirstRest_us);
}

TEST_F(PaceTest, NoDriveIsJudgedWithoutAPeerOfItsKindOrWithoutWork) {
  drives_.resize(3);
  drives_[2].rotational = true;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(round({1500, 1500, 10}).empty());
  drives_[2].rotational = false;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(watch_.judge(now_us_ += kSecond_us, drives_).empty());
}

TEST_F(PaceTest, ShortRoundsAddUp) {
  size_t verdicts = 0;
  for (int i = 0; i < 2 * 3; ++i) verdicts += round({150, 150, 10}, PaceWatch::kLeastBusy_us / 2).size();
  EXPECT_EQ(verdicts, 1u);
}

TEST(BusyTimeTest, CountsOnlyWhatIsUnderWay) {
  BusyTime busy;
  EXPECT_EQ(busy.read_us(), 0u);
  busy.begin();
  while (busy.read_us() == 0) {
  }
  busy.end();
  const uint64_t total_us = busy.read_us();
  EXPECT_GT(total_us, 0u);
  busy.end();
  EXPECT_EQ(busy.read_us(), total_us);
}

}  // namespace
}  // namespace millrace::store
