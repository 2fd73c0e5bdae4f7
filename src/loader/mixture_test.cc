// Tests the proportions of mixtures, in every stretch and as a whole.
#include "loader/mixture.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::loader {
namespace {

TEST(MixtureTest, EveryStretchHoldsThePartsInProportion) {
  const std::vector<double> weights = {0.5, 0.3, 0.2};
  const auto mixture = Mixture::make(weights);
  ASSERT_TRUE(mixture.has_value());
  for (const uint64_t start : {0UL, 777UL, 65'000UL, 1'000'000UL}) {
    std::vector<double> counts(3);
    for (uint64_t element = start; element < start + 1000; ++element) ++counts[mixture->part(element)];
    for (size_t part = 0; part < 3; ++part) EXPECT_NEAR(counts[part], 1000 * weights[part], 2) << start;
  }
}

TEST(MixtureTest, PlacesInAPartAreCountedWithoutWalking) {
  const auto mixture = Mixture::make({3, 1, 7, 0.001});
  ASSERT_TRUE(mixture.has_value());
  std::vector<uint64_t> walked(4);
  for (uint64_t element = 0; element < 3 * Mixture::kPattern; ++element) {
    const size_t part = mixture->part(element);
    ASSERT_EQ(mixture->before(part, element), walked[part]) << element;
    ++walked[part];
  }
  for (size_t part = 0; part < 4; ++part) EXPECT_GT(walked[part], 0u);
}

TEST(MixtureTest, ImpossibleWeightsAreErrors) {
  for (const std::vector<double>& bad :
       {std::vector<double>{}, {0.0}, {1, -1}, {NAN}, {INFINITY, 1}, std::vector<double>(5000, 1)})
    EXPECT_FALSE(Mixture::make(bad).has_value());
}

}  // namespace
}  // namespace millrace::loader
