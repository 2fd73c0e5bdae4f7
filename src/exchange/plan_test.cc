// Plans: balance, conservation, mixing as theory says, no samples that can never meet.
#include "exchange/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/random.h"
#include "exchange/balance.h"
#include "exchange/simulate.h"

namespace millrace::exchange {
namespace {

constexpr uint32_t kClasses = 10;

// N samples in label order, dealt as asked.
Ranks make_ranks(uint64_t samples, uint32_t ranks, Partition partition = Partition::kContiguous,
                 uint64_t seed = 1) {
  const std::vector<uint32_t> owners = deal_samples({partition, ranks, seed}, {samples});
  Ranks dealt(ranks);
  for (uint64_t id = 0; id < samples; ++id)
    dealt[owners[id]].push_back({id, static_cast<uint32_t>(id * kClasses / samples), 0});
  return dealt;
}

PlanOptions options_of(Policy policy, Select select, uint64_t seed = 7, uint32_t partners = 32) {
  PlanOptions options;
  options.policy = policy;
  options.select = select;
  options.seed = seed;
  options.partners = partners;
  return options;
}

FractionSchedule fraction(const std::string& text) {
  auto parsed = FractionSchedule::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.take();
}

EpochView view_of(const Ranks& ranks, double q, uint64_t epoch = 0) {
  EpochView view;
  view.epoch = epoch;
  view.fraction = q;
  for (const auto& one : ranks) {
    view.sizes.push_back(one.size());
    view.labels.push_back(count_labels(one, kClasses));
  }
  return view;
}

std::multiset<uint64_t> ids_of(const Ranks& ranks) {
  std::multiset<uint64_t> ids;
  for (const auto& one : ranks) {
    for (const Resident& resident : one) ids.insert(resident.id);
  }
  return ids;
}

TEST(PlanTest, EveryRankSendsAsManyAsItReceivesAndNothingToItself) {
  const uint64_t seed = 20'261;
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    const auto ranks = static_cast<uint32_t>(1 + random.below(40));
    Ranks dealt(ranks);
    uint64_t id = 0;
    for (auto& one : dealt) {
      const uint64_t size = 1 + random.below(60);
      for (uint64_t i = 0; i < size; ++i, ++id) one.push_back({id, static_cast<uint32_t>(id % kClasses), 0});
    }
    const auto select = static_cast<Select>(random.below(3));
    const Planner planner(options_of(Policy::kShift, select, random.next(), 1 + random.below(9)),
                          view_of(dealt, random.unit(), round));
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> sent;
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> received;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const auto plan = planner.plan(rank, dealt[rank]);
      ASSERT_TRUE(plan);
      EXPECT_EQ(plan->sent(), plan->received());
      std::set<uint32_t> slots;
      for (const Send& send : plan->sends) {
        EXPECT_NE(send.to, rank);
        sent[{rank, send.to}] = send.slots.size();
        for (const uint32_t slot : send.slots) EXPECT_TRUE(slots.insert(slot).second) << "slot leaves twice";
      }
      EXPECT_TRUE(slots.empty() || *slots.rbegin() < dealt[rank].size());
      for (const Receive& receive : plan->receives) received[{receive.from, rank}] = receive.slots.size();
    }
    EXPECT_EQ(sent, received);
  }
}

TEST(PlanTest, EqualRanksExchangeExactlyTheFractionAskedFor) {
  const Ranks dealt = make_ranks(64 * 100, 64);
  for (const double q : {0.0, 0.01, 0.1, 0.3, 1.0}) {
    const Planner planner(options_of(Policy::kShift, Select::kRandom), view_of(dealt, q));
    for (uint32_t rank = 0; rank < 64; ++rank) EXPECT_EQ(planner.quota(rank), std::llround(q * 100));
  }
}

TEST(PlanTest, FractionsOfASampleAddUpOverEpochs) {
  const Ranks dealt = make_ranks(64 * 10, 64);
  uint64_t sum = 0;
  for (uint64_t epoch = 0; epoch < 4000; ++epoch)
    sum += Planner(options_of(Policy::kShift, Select::kRandom), view_of(dealt, 0.025, epoch)).quota(3);
  // A quarter of a sample per epoch: 1000, with a deviation of 27.
  EXPECT_NEAR(static_cast<double>(sum), 1000, 110);
}

TEST(PlanTest, PartnersBoundTheMessages) {
  const Ranks dealt = make_ranks(4096 * 4, 4096);
  const Planner planner(options_of(Policy::kShift, Select::kOldest, 3, 4), view_of(dealt, 1.0));
  for (const uint32_t rank : {0U, 17U, 4095U}) EXPECT_EQ(planner.plan(rank, dealt[rank])->sends.size(), 4U);
}

TEST(PlanTest, UnequalRanksExchangeTheirOwnFraction) {
  Ranks dealt(6);
  uint64_t id = 0;
  const std::vector<uint64_t> sizes = {100, 100, 200, 200, 400, 400};
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    for (uint64_t i = 0; i < sizes[rank]; ++i) dealt[rank].push_back({id++, 0, 0});
  }
  const Planner planner(options_of(Policy::kShift, Select::kRandom), view_of(dealt, 0.5));
  for (uint32_t rank = 0; rank < 6; ++rank) EXPECT_EQ(planner.quota(rank), sizes[rank] / 2);
}

TEST(PlanTest, OneRankAndNoSamplesAreNothingToDo) {
  const Ranks alone = make_ranks(10, 1);
  EXPECT_EQ(Planner({}, view_of(alone, 1.0)).plan(0, alone[0])->sent(), 0U);
  const Ranks empty(3);
  EXPECT_EQ(Planner({}, view_of(empty, 1.0)).plan(2, empty[2])->sent(), 0U);
}

TEST(PlanTest, TheSameNumbersGiveTheSamePlanAndAnotherSeedAnother) {
  const Ranks dealt = make_ranks(800, 8);
  const auto slots = [&](uint64_t seed, uint64_t epoch) {
    return Planner(options_of(Policy::kShift, Select::kOldest, seed), view_of(dealt, 0.2, epoch))
        .plan(3, dealt[3])
        ->sends.front()
        .slots;
  };
  EXPECT_EQ(slots(1, 0), slots(1, 0));
  EXPECT_NE(slots(1, 0), slots(2, 0));
  EXPECT_NE(slots(1, 0), slots(1, 1));
}

TEST(PlanTest, CallbacksThatChooseNonsenseAreRefused) {
  const Ranks dealt = make_ranks(80, 8);
  PlanOptions options = options_of(Policy::kShift, Select::kCallback);
  EXPECT_FALSE(Planner(options, view_of(dealt, 0.2)).plan(0, dealt[0]));
  for (const std::vector<uint32_t>& bad : {std::vector<uint32_t>{0}, {1, 1}, {0, 10}, {0, 1, 2}}) {
    options.choose = [&](std::span<const Resident>, uint64_t) { return bad; };
    EXPECT_FALSE(Planner(options, view_of(dealt, 0.2)).plan(0, dealt[0]));
  }
  options.choose = [](std::span<const Resident>, uint64_t count) {
    std::vector<uint32_t> first(count);
    std::iota(first.begin(), first.end(), 0);
    return first;
  };
  EXPECT_EQ(Planner(options, view_of(dealt, 0.2)).plan(0, dealt[0])->sent(), 2U);
}

TEST(PlanTest, NamesOfPoliciesAndSelectionsAreReadBack) {
  for (const Policy policy : {Policy::kShift, Policy::kPaper})
    EXPECT_EQ(*parse_policy(policy_name(policy)), policy);
  for (const Select select : {Select::kOldest, Select::kRandom, Select::kLabelAware, Select::kCallback})
    EXPECT_EQ(*parse_select(select_name(select)), select);
  EXPECT_FALSE(parse_policy("ring"));
  EXPECT_FALSE(parse_select("best"));
}

TEST(SimulationTest, NoSampleIsLostOrDoubledUnderAnyPolicy) {
  for (const Policy policy : {Policy::kShift, Policy::kPaper}) {
    for (const Select select : {Select::kOldest, Select::kRandom, Select::kLabelAware}) {
      Simulation simulation(options_of(policy, select), fraction("0.3"), make_ranks(1003, 8));
      const auto before = ids_of(simulation.ranks());
      for (int epoch = 0; epoch < 12; ++epoch) ASSERT_TRUE(simulation.step());
      EXPECT_EQ(ids_of(simulation.ranks()), before);
      for (const auto& one : simulation.ranks()) EXPECT_NEAR(static_cast<double>(one.size()), 1003 / 8.0, 1);
    }
  }
}

TEST(SimulationTest, FourThousandRanksArePlannedAndConserved) {
  Simulation simulation(options_of(Policy::kShift, Select::kOldest), fraction("0.1"),
                        make_ranks(4096 * 30, 4096));
  const auto before = ids_of(simulation.ranks());
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto figures = simulation.step();
    ASSERT_TRUE(figures);
    EXPECT_EQ(figures->moved, 4096U * 3);
    EXPECT_LE(figures->messages, 4096U * 3);
  }
  EXPECT_EQ(ids_of(simulation.ranks()), before);
}

// (1-Q)^t stay with random selection, none after 1/Q epochs with the oldest first.
TEST(SimulationTest, MixingIsWhatTheorySays) {
  constexpr uint32_t kRanks = 64;
  constexpr double kSamples = 64 * 500;
  Simulation random(options_of(Policy::kShift, Select::kRandom), fraction("0.1"),
                    make_ranks(64 * 500, kRanks));
  Simulation oldest(options_of(Policy::kShift, Select::kOldest), fraction("0.1"),
                    make_ranks(64 * 500, kRanks));
  for (int epoch = 1; epoch <= 14; ++epoch) {
    const double at_home = random.step()->home_share;
    // Leaving is never to oneself; what left comes home again by one of M-1 ways.
    const double stayed = std::pow(0.9, epoch);
    EXPECT_GT(at_home, stayed - 4 * std::sqrt(stayed / kSamples));
    const double theory = 1.0 / kRanks + (1 - 1.0 / kRanks) * stayed;
    EXPECT_NEAR(at_home, theory, 0.012) << epoch;
    const double left = oldest.step()->home_share;
    EXPECT_NEAR(left, std::max(0.0, 1 - 0.1 * epoch), 0.015) << epoch;
  }
}

TEST(SimulationTest, ThePublishedRuleMixesAsThePublishedTheory) {
  Simulation paper(options_of(Policy::kPaper, Select::kRandom), fraction("0.1"), make_ranks(64 * 500, 64));
  for (int epoch = 0; epoch < 14; ++epoch) ASSERT_TRUE(paper.step());
  const double theory = 1.0 / 64 + (1 - 1.0 / 64) * std::pow(0.9, 14);
  // The same slots leave everywhere, so there are 500 independent draws, not 32 000: a deviation of 0.019.
  EXPECT_NEAR(paper.figures().home_share, theory, 0.06);
}

double same_slot_meetings(Policy policy, Select select) {
  constexpr uint32_t kRanks = 8;
  constexpr uint32_t kEach = 64;
  Simulation simulation(options_of(policy, select), fraction("0.5"), make_ranks(kRanks * kEach, kRanks));
  uint64_t met = 0;
  uint64_t pairs = 0;
  for (int epoch = 0; epoch < 60; ++epoch) {
    EXPECT_TRUE(simulation.step());
    if (epoch < 10) continue;
    for (const auto& one : simulation.ranks()) {
      std::vector<int> columns(kEach);
      for (const Resident& resident : one) ++columns[resident.id % kEach];  // its slot at the start
      for (const int count : columns) met += static_cast<uint64_t>(count * (count - 1) / 2);
    }
    pairs += uint64_t{kEach} * kRanks * (kRanks - 1) / 2;
  }
  return static_cast<double>(met) / static_cast<double>(pairs);
}

// Samples that start in one slot number meet as often as any: (n-1)/(N-1) of the time.
TEST(SimulationTest, SamplesOfOneSlotMeetUnlessTheRuleIsThePublishedOne) {
  const double ideal = 63.0 / 511;
  EXPECT_NEAR(same_slot_meetings(Policy::kShift, Select::kRandom), ideal, 0.012);
  EXPECT_NEAR(same_slot_meetings(Policy::kShift, Select::kOldest), ideal, 0.012);
  EXPECT_EQ(same_slot_meetings(Policy::kPaper, Select::kRandom), 0);
}

double batch_dispersion(Policy policy, uint32_t order_key_step) {
  constexpr uint32_t kRanks = 8;
  constexpr uint32_t kEach = 64;
  constexpr uint32_t kBatch = 8;  // per rank
  Simulation simulation(options_of(policy, Select::kRandom), fraction("0.5"),
                        make_ranks(kRanks * kEach, kRanks));
  PairMeter meter(kRanks * kEach, 256, 5);
  for (uint64_t epoch = 0; epoch < 120; ++epoch) {
    EXPECT_TRUE(simulation.step());
    std::vector<uint64_t> batch_of(kRanks * kEach);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      const auto order = local_order(9, epoch, rank * order_key_step, kEach);
      for (uint32_t i = 0; i < kEach; ++i) batch_of[simulation.ranks()[rank][order[i]].id] = i / kBatch;
    }
    meter.add_round([&](uint64_t id) { return batch_of[id]; });
  }
  return meter.dispersion();
}

TEST(SimulationTest, PairsMeetInBatchesAsIndependentDrawsDo) {
  EXPECT_NEAR(batch_dispersion(Policy::kShift, 1), 1.0, 0.1);
  // The published rule together with one order for all ranks: whole columns come in one batch.
  EXPECT_GT(batch_dispersion(Policy::kPaper, 0), 2.0);
}

TEST(SimulationTest, LabelAwareSelectionLevelsLabelsWithTheLeastVolume) {
  const auto epochs_to_floor = [](Select select) {
    Simulation simulation(options_of(Policy::kShift, select), fraction("0.1"), make_ranks(64 * 300, 64));
    int epochs = 0;
    while (simulation.figures().balance.distance > 1.1 * simulation.figures().balance.floor && epochs < 60) {
      EXPECT_TRUE(simulation.step());
      ++epochs;
    }
    return epochs;
  };
  const int by_label = epochs_to_floor(Select::kLabelAware);
  const int oldest = epochs_to_floor(Select::kOldest);
  const int random = epochs_to_floor(Select::kRandom);
  EXPECT_LE(by_label, oldest);
  EXPECT_LE(oldest, 12);
  EXPECT_GE(random, 20);
}

TEST(SimulationTest, AnAutomaticFractionEndsAtTheFloor) {
  Simulation simulation(options_of(Policy::kShift, Select::kOldest), fraction("auto:0.2"),
                        make_ranks(16 * 400, 16));
  std::vector<uint64_t> moved;
  for (int epoch = 0; epoch < 12; ++epoch) moved.push_back(simulation.step()->moved);
  EXPECT_EQ(moved.front(), 16U * 80);
  EXPECT_EQ(moved.back(), 0U);
  const LabelBalance balance = simulation.figures().balance;
  EXPECT_LE(balance.distance, 1.1 * balance.floor);
}

TEST(FractionTest, AnAutomaticFractionExchangesUntilTheFloorIsNearWhereverItIs) {
  const FractionSchedule automatic = fraction("auto");
  EXPECT_EQ(automatic.at(0, {.distance = 0.997, .floor = 0.907}), 0.1);
  EXPECT_EQ(automatic.at(0, {.distance = 0.91, .floor = 0.907}), 0);
  EXPECT_EQ(automatic.at(0, {.distance = 0.05, .floor = 0.04}), 0.1);
  EXPECT_EQ(automatic.at(0, {.distance = 0.043, .floor = 0.04}), 0);
}

TEST(SimulationTest, PeakStorageIsBoundedByTheFraction) {
  Simulation simulation(options_of(Policy::kShift, Select::kOldest), fraction("0.3"),
                        make_ranks(16 * 200, 16));
  for (int epoch = 0; epoch < 20; ++epoch) EXPECT_LE(simulation.step()->most_held, 260U);
}

TEST(BalanceTest, TheFloorIsThatOfRandomDeals) {
  const Ranks dealt = make_ranks(60'000, 64, Partition::kRandom, 3);
  const LabelBalance balance = measure_balance(view_of(dealt, 0).labels);
  EXPECT_NEAR(balance.floor, 0.039, 0.001);
  EXPECT_NEAR(balance.distance, balance.floor, 0.003);
  EXPECT_GT(measure_balance(view_of(make_ranks(60'000, 64), 0).labels).distance, 0.85);
}

TEST(BalanceTest, TheFloorHoldsWhereRanksHaveFewerSamplesThanClasses) {
  const auto deal = [](uint32_t samples, uint32_t world, uint32_t classes) {
    std::vector<uint32_t> labels;
    for (uint32_t i = 0; i < samples; ++i) labels.push_back(i % classes);
    Random(7).shuffle(std::span(labels));
    std::vector<LabelCounts> ranks(world, LabelCounts(classes));
    for (uint32_t i = 0; i < samples; ++i) ++ranks[i % world][labels[i]];
    return measure_balance(ranks);
  };
  const LabelBalance single = deal(600, 2, 600);  // every class once: half of them are always missing
  EXPECT_NEAR(single.floor, 0.5, 1e-9);
  EXPECT_NEAR(single.distance, 0.5, 1e-9);
  const LabelBalance few = deal(50'000, 512, 1000);
  EXPECT_NEAR(few.floor, 0.907, 0.001);
  EXPECT_NEAR(few.distance, few.floor, 0.003);
}

TEST(FractionTest, SchedulesAreReadAndNonsenseIsRefused) {
  const FractionSchedule steps = fraction("0.5,0.1@3,0@20");
  EXPECT_EQ(steps.at(2, {}), 0.5);
  EXPECT_EQ(steps.at(3, {}), 0.1);
  EXPECT_EQ(steps.at(25, {}), 0);
  EXPECT_EQ(steps.most(), 0.5);
  EXPECT_TRUE(fraction("auto").is_automatic());
  EXPECT_EQ(fraction("auto:0.3").at(5, {0.5, 0.1}), 0.3);
  EXPECT_EQ(fraction("auto:0.3").at(5, {0.1, 0.1}), 0);
  for (const char* bad :
       {"", "1.5", "-0.1", "nan", "0.1@2", "0.1,0.2", "0.1,0.2@x", "auto:", "auto:2", "0.1,0.2@5,0.3@5"})
    EXPECT_FALSE(FractionSchedule::parse(bad)) << bad;
}

std::vector<uint64_t> redealt(const std::vector<uint64_t>& sizes, uint32_t world) {
  std::vector<uint64_t> after = sizes;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> sent;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> received;
  for (uint32_t rank = 0; rank < sizes.size(); ++rank) {
    const RankPlan plan = plan_redeal(rank, sizes, world);
    EXPECT_TRUE(plan.sends.empty() || plan.receives.empty());
    for (const Send& send : plan.sends) sent[{rank, send.to}] = send.slots.size();
    for (const Receive& receive : plan.receives) received[{receive.from, rank}] = receive.slots.size();
    std::vector<uint64_t> held(sizes[rank], 1);
    const std::vector<uint64_t> arrivals(plan.received(), 2);
    after[rank] = apply_plan<uint64_t>(plan, held, arrivals).size();
  }
  EXPECT_EQ(sent, received);
  return after;
}

TEST(RedealTest, AnotherNumberOfRanksHoldsEquallyManyWithTheLeastMoved) {
  EXPECT_EQ(redealt({10, 10, 10, 10, 0, 0}, 6), (std::vector<uint64_t>{7, 7, 7, 7, 6, 6}));
  EXPECT_EQ(redealt({10, 10, 10, 10}, 3), (std::vector<uint64_t>{14, 13, 13, 0}));
  EXPECT_EQ(redealt({5, 5}, 2), (std::vector<uint64_t>{5, 5}));
  EXPECT_EQ(redealt({0, 7, 0}, 1), (std::vector<uint64_t>{7, 0, 0}));
  EXPECT_EQ(plan_redeal(3, {10, 10, 10, 10, 0, 0}, 6).sent(), 3U);
}

}  // namespace
}  // namespace millrace::exchange
