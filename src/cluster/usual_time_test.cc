// What nineteen of twenty answers take.
#include "cluster/usual_time.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace millrace::cluster {
namespace {

TEST(UsualTimeTest, FindsWhatOneOfTwentyExceeds) {
  for (const uint64_t first : {uint64_t{1}, uint64_t{10'000'000}}) {
    UsualTime usual(first);
    Random random(20261118);
    for (int i = 0; i < 20'000; ++i) usual.note(random.below(1000));
    EXPECT_GT(usual.us(), 800u) << first;
    EXPECT_LT(usual.us(), 1100u) << first;
  }
}

TEST(UsualTimeTest, FollowsWhenAllAnswersBecomeSlow) {
  UsualTime usual(1000);
  for (int i = 0; i < 200; ++i) usual.note(50'000);
  EXPECT_GT(usual.us(), 40'000u);
}

}  // namespace
}  // namespace millrace::cluster
