// Tests where crops fall.
#include "decode/crop.h"

#include <gtest/gtest.h>

namespace millrace::decode {
namespace {

TEST(CropTest, RandomResizedCropsStayInsideAndInTheirRanges) {
  Random random(3);
  const Size image{500, 375};
  for (int i = 0; i < 5000; ++i) {
    const Rect crop = choose_random_resized(image, {}, random);
    ASSERT_TRUE(crop.fits(image));
    const double share = static_cast<double>(crop.width) * crop.height / (500.0 * 375);
    const double ratio = static_cast<double>(crop.width) / crop.height;
    ASSERT_GT(share, 0.078);
    ASSERT_GT(ratio, 0.74);
    ASSERT_LT(ratio, 1.35);
  }
}

TEST(CropTest, TheFallbackIsTheMiddle) {
  Random random(3);
  EXPECT_EQ(choose_random_resized({1000, 10}, {1.0, 1.0, 0.75, 4.0 / 3}, random), (Rect{493, 0, 13, 10}));
  EXPECT_EQ(choose_random_resized({10, 1000}, {1.0, 1.0, 0.75, 4.0 / 3}, random), (Rect{0, 493, 10, 13}));
  EXPECT_EQ(choose_random_resized({1, 1}, {9.0, 9.0, 0.75, 4.0 / 3}, random), (Rect{0, 0, 1, 1}));
}

TEST(CropTest, RandomCropsReachEveryCorner) {
  Random random(9);
  bool first = false;
  bool last = false;
  for (int i = 0; i < 500; ++i) {
    const auto crop = choose_random({12, 11}, {10, 9}, random);
    ASSERT_TRUE(crop);
    first = first || (crop->x == 0 && crop->y == 0);
    last = last || (crop->x == 2 && crop->y == 2);
  }
  EXPECT_TRUE(first && last);
}

TEST(CropTest, ARandomCropThatDoesNotFitIsAnError) {
  Random random(9);
  const auto crop = choose_random({12, 11}, {13, 9}, random);
  ASSERT_FALSE(crop);
  EXPECT_EQ(crop.error().message(), "image of 12 x 11 is smaller than the random crop of 13 x 9");
}

TEST(CropTest, HalvesOfTheMiddleGoToEven) {
  EXPECT_EQ(choose_center({5, 7}, {4, 4}).from, (Rect{0, 2, 4, 4}));
  EXPECT_EQ(choose_center({7, 5}, {4, 4}).from, (Rect{2, 0, 4, 4}));
}

TEST(CropTest, TheLongerSideIsCutToWholePixels) {
  EXPECT_EQ(resized({500, 375}, 256), (Size{341, 256}));
  EXPECT_EQ(resized({375, 500}, 256), (Size{256, 341}));
  EXPECT_EQ(resized({256, 256}, 256), (Size{256, 256}));
}

}  // namespace
}  // namespace millrace::decode
