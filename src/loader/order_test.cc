// Orders of many data sets, worlds and windows: exact, equal, and the same from every start.
#include "loader/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"

namespace millrace::loader {
namespace {

struct Case {
  std::vector<uint64_t> shards;
  OrderOptions options;
};

Case random_case(uint64_t seed) {
  Random random(seed);
  Case made;
  const uint64_t shards = 1 + random.below(12);
  for (uint64_t i = 0; i < shards; ++i) made.shards.push_back(random.below(120));
  made.shards.push_back(1 + random.below(50));
  made.options.seed = random.next();
  made.options.epoch = random.below(5);
  made.options.batch = 1 + random.below(100);
  made.options.window = random.below(4) == 0 ? 0 : random.below(400);
  made.options.end = static_cast<EpochEnd>(random.below(3));
  return made;
}

std::vector<std::vector<SampleRef>> whole_epoch(const Order& order) {
  BatchWalker walker(order);
  std::vector<std::vector<SampleRef>> batches;
  for (uint64_t batch = 0; batch < order.batches(); ++batch) batches.push_back(walker.samples(batch));
  return batches;
}

using Counts = std::map<std::pair<uint32_t, uint64_t>, int>;
Counts count_samples(const std::vector<std::vector<SampleRef>>& batches) {
  Counts counts;
  for (const auto& batch : batches) {
    for (const SampleRef sample : batch) ++counts[{sample.shard, sample.ordinal}];
  }
  return counts;
}

TEST(OrderTest, EverySampleComesExactlyOnce) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Case made = random_case(seed);
    made.options.end = EpochEnd::kExact;
    const Order order(made.shards, made.options);
    const Counts counts = count_samples(whole_epoch(order));
    ASSERT_EQ(counts.size(), order.samples()) << "seed " << seed;
    for (const auto& [sample, count] : counts) {
      ASSERT_EQ(count, 1) << "seed " << seed;
      ASSERT_LT(sample.second, made.shards[sample.first]) << "seed " << seed;
    }
  }
}

TEST(OrderTest, DroppedEpochsHaveOnlyWholeBatchesAndPaddedOnesMissNothing) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Case made = random_case(seed);
    made.options.end = EpochEnd::kDrop;
    const Order dropped(made.shards, made.options);
    const auto kept = whole_epoch(dropped);
    for (const auto& batch : kept) ASSERT_EQ(batch.size(), made.options.batch) << "seed " << seed;
    for (const auto& [sample, count] : count_samples(kept)) ASSERT_EQ(count, 1) << "seed " << seed;
    made.options.end = EpochEnd::kPad;
    const Order padded(made.shards, made.options);
    const auto filled = whole_epoch(padded);
    for (const auto& batch : filled) ASSERT_EQ(batch.size(), made.options.batch) << "seed " << seed;
    ASSERT_EQ(count_samples(filled).size(), padded.samples()) << "seed " << seed;
  }
}

TEST(OrderTest, RanksShareEveryBatchWithoutGapAndEqually) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Case made = random_case(seed);
    const Order order(made.shards, made.options);
    for (uint64_t world = 1; world <= made.options.batch; world += 1 + world / 3) {
      for (uint64_t batch = 0; batch < order.batches(); ++batch) {
        uint64_t next = 0;
        for (uint64_t rank = 0; rank < world; ++rank) {
          const Slice slice = order.slice(batch, rank, world);
          ASSERT_EQ(slice.first, next);
          next += slice.size;
          const uint64_t fair = order.batch_size(batch) / world;
          ASSERT_TRUE(slice.size == fair || slice.size == fair + 1);
        }
        ASSERT_EQ(next, order.batch_size(batch));
      }
    }
  }
}

TEST(OrderTest, ACursorStartedAnywhereGoesOnAsIfItHadWalked) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Case made = random_case(seed);
    const Order order(made.shards, made.options);
    for (uint64_t lane = 0; lane < order.lanes(); ++lane) {
      std::vector<uint64_t> walked;
      LaneCursor cursor(order, lane, 0);
      for (uint64_t i = 0; i < order.lane_size(lane); ++i) walked.push_back(cursor.next());
      for (uint64_t from = 0; from < walked.size(); from += 1 + from / 7) {
        LaneCursor started(order, lane, from);
        for (uint64_t i = from; i < walked.size(); ++i)
          ASSERT_EQ(started.next(), walked[i]) << "seed " << seed;
      }
    }
  }
}

TEST(OrderTest, OneElementIsFoundWithoutWalking) {
  const Order order({100, 50, 77, 3}, {7, 2, 48, 64, EpochEnd::kExact});
  const auto batches = whole_epoch(order);
  for (uint64_t batch = 0; batch < batches.size(); ++batch) {
    for (uint64_t element = 0; element < batches[batch].size(); element += 5)
      EXPECT_EQ(order.find(batch, element), batches[batch][element]);
  }
}

TEST(OrderTest, UnshuffledIsTheOrderOfTheShards) {
  const Order order({3, 0, 4}, {1, 1, 5, 0, EpochEnd::kExact});
  const std::vector<std::vector<SampleRef>> wanted = {{{0, 0}, {0, 1}, {0, 2}, {2, 0}, {2, 1}},
                                                      {{2, 2}, {2, 3}}};
  EXPECT_EQ(whole_epoch(order), wanted);
}

TEST(OrderTest, EpochsAndSeedsDiffer) {
  const std::vector<uint64_t> shards(20, 50);
  const auto make = [&](uint64_t seed, uint64_t epoch) {
    return whole_epoch(Order(shards, {seed, epoch, 64, 500, EpochEnd::kExact}));
  };
  EXPECT_EQ(make(1, 0), make(1, 0));
  EXPECT_NE(make(1, 0), make(1, 1));
  EXPECT_NE(make(1, 0), make(2, 0));
}

TEST(OrderTest, NoSampleLeavesItsWindow) {
  const Order order({1000, 1000}, {3, 0, 64, 400, EpochEnd::kExact});
  for (uint64_t lane = 0; lane < order.lanes(); ++lane) {
    LaneCursor cursor(order, lane, 0);
    for (uint64_t position = 0; position < order.lane_size(lane); ++position) {
      const uint64_t place = cursor.next() - order.lane_start(lane);
      ASSERT_LT(place, position + order.lane_window());
      ASSERT_LT(position, place + order.lane_window());
    }
  }
}

}  // namespace
}  // namespace millrace::loader
