// Tests which numbers may be multiplied instead of divided.
#include "decode/scaling.h"

#include <gtest/gtest.h>

namespace millrace::decode {
namespace {

TEST(ScalingTest, UsualMeansAndDeviationsNeedNoDivision) {
  EXPECT_TRUE(Scaling({0, 0, 0, 0}, {1, 1, 1, 1}).divides_by_multiplying);
  EXPECT_TRUE(Scaling({0.5F, 0.5F, 0.5F, 0}, {0.5F, 0.5F, 0.5F, 1}).divides_by_multiplying);
  EXPECT_TRUE(Scaling({0.485F, 0.456F, 0.406F, 0}, {0.229F, 0.224F, 0.225F, 1}).divides_by_multiplying);
  EXPECT_TRUE(Scaling({0.4815F, 0.4578F, 0.4082F, 0}, {0.2686F, 0.2613F, 0.2758F, 1}).divides_by_multiplying);
}

TEST(ScalingTest, WhereMultiplyingWouldRoundOtherwiseItIsNoticed) {
  EXPECT_FALSE(Scaling({0, 0, 0, 0}, {1e-39F, 1, 1, 1}).divides_by_multiplying);
}

TEST(ScalingTest, HalvesAreTheNearest) {
  const Scaling scaling({0, 0, 0, 0}, {1, 1, 1, 1});
  EXPECT_EQ(scaling.halves[0][0], 0x0000);
  EXPECT_EQ(scaling.halves[0][255], 0x3c00);
  EXPECT_EQ(scaling.halves[0][51], 0x3266);
  EXPECT_EQ(scaling.floats[2][51], 51.0F / 255.0F);
}

}  // namespace
}  // namespace millrace::decode
