// Tests the figures on cases whose answer is known.
#include "exchange/mixing.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::exchange {
namespace {

constexpr uint32_t kRanks = 8;
constexpr uint64_t kEach = 320;

// In label order: a rank holds one or two of ten classes.
Ranks sorted_ranks() {
  Ranks ranks(kRanks);
  for (uint64_t id = 0; id < kRanks * kEach; ++id)
    ranks[id / kEach].push_back({id, static_cast<uint32_t>(id * 10 / (kRanks * kEach)), 0});
  return ranks;
}

MixingFigures run(std::string_view fraction, Select select, int epochs) {
  PlanOptions plan;
  plan.select = select;
  Simulation simulation(plan, *FractionSchedule::parse(fraction), sorted_ranks());
  MixingMeter meter(simulation.ranks(), {.seed = 3, .batch = 16});
  for (int epoch = 0; epoch < epochs; ++epoch) {
    meter.add_epoch(simulation.ranks(), static_cast<uint64_t>(epoch));
    EXPECT_TRUE(simulation.step());
  }
  return meter.figures();
}

TEST(MixingTest, WithoutExchangeASampleStaysAndItsRankSeesFewLabels) {
  const MixingFigures figures = run("0", Select::kOldest, 12);
  EXPECT_EQ(figures.ranks_seen.value, 1);
  EXPECT_NEAR(figures.ranks_seen.ideal, 8 * (1 - std::pow(7.0 / 8, 12)), 1e-9);
  EXPECT_LT(figures.label_entropy->value, 1.0);
  EXPECT_GT(figures.label_entropy->ideal, 2.5);
  // Pairs are on one rank always or never: as far from coin tosses as can be.
  EXPECT_GT(figures.pairs_on_ranks.value, 8);
  // Each rank still walks in a new order every epoch.
  EXPECT_NEAR(figures.order_correlation.value, 0, 0.05);
  EXPECT_LT(figures.neighbours_kept.value, 0.02);
}

TEST(MixingTest, AWholeExchangeEveryEpochIsAsGoodAsAGlobalShuffle) {
  const MixingFigures figures = run("1", Select::kRandom, 60);
  EXPECT_NEAR(figures.ranks_seen.value, figures.ranks_seen.ideal, 0.05);
  EXPECT_NEAR(figures.label_entropy->value, figures.label_entropy->ideal, 0.1);
  EXPECT_NEAR(figures.global_label_entropy->value, figures.global_label_entropy->ideal, 0.05);
  EXPECT_NEAR(figures.pairs_in_batches.value, 1, 0.1);
  EXPECT_NEAR(figures.order_correlation.value, 0, 0.03);
  EXPECT_NEAR(figures.neighbour_entropy.value, figures.neighbour_entropy.ideal, 0.05);
}

TEST(MixingTest, UnlabelledSamplesHaveNoLabelFigures) {
  Ranks ranks(2);
  for (uint64_t id = 0; id < 40; ++id) ranks[id % 2].push_back({id, kNoLabel, 0});
  MixingMeter meter(ranks, {.seed = 1, .batch = 4});
  meter.add_epoch(ranks, 0);
  EXPECT_FALSE(meter.figures().label_entropy);
  EXPECT_EQ(meter.figures().ranks_seen.value, 1);
}

}  // namespace
}  // namespace millrace::exchange
