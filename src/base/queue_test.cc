// BoundedQueue: order, the bound, and what close() means to both sides.
#include "base/queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(BoundedQueueTest, GivesValuesInTheOrderTheyCame) {
  BoundedQueue<int> queue(3);
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(queue.push(i));
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(queue.pop(), i);
}

TEST(BoundedQueueTest, CarriesMoveOnlyValues) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  ASSERT_TRUE(queue.push(std::make_unique<int>(9)));
  EXPECT_EQ(**queue.pop(), 9);
}

TEST(BoundedQueueTest, RefusesValuesOnceClosed) {
  BoundedQueue<int> queue(2);
  queue.close();
  EXPECT_FALSE(queue.push(1));
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueueTest, DrainsWhatIsLeftAfterCloseAndThenEnds) {
  BoundedQueue<int> queue(2);
  ASSERT_TRUE(queue.push(1));
  ASSERT_TRUE(queue.push(2));
  queue.close();
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueueTest, ClosingTwiceIsHarmless) {
  BoundedQueue<int> queue(1);
  queue.close();
  queue.close();
  EXPECT_FALSE(queue.push(1));
}

TEST(BoundedQueueTest, CloseWakesAProducerThatWaitsForRoom) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.push(1));
  std::latch started(1);
  std::thread producer([&] {
    started.count_down();
    EXPECT_FALSE(queue.push(2));
  });
  started.wait();
  queue.close();
  producer.join();
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueueTest, CloseWakesEveryConsumerThatWaitsForAValue) {
  BoundedQueue<int> queue(1);
  std::latch started(3);
  std::vector<std::thread> consumers;
  for (int i = 0; i < 3; ++i) {
    consumers.emplace_back([&] {
      started.count_down();
      EXPECT_EQ(queue.pop(), std::nullopt);
    });
  }
  started.wait();
  queue.close();
  for (std::thread& consumer : consumers) consumer.join();
}

TEST(BoundedQueueTest, AProducerGoesOnWhenAValueIsTaken) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.push(1));
  std::thread producer([&] { EXPECT_TRUE(queue.push(2)); });
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  producer.join();
}

TEST(BoundedQueueTest, NeverHoldsMoreThanItsCapacity) {
  constexpr int kValues = 2000;
  constexpr int kCapacity = 4;
  BoundedQueue<int> queue(kCapacity);
  // Counted before a push and after a pop, so one more than the queue holds may be under way.
  std::atomic<int> under_way = 0;
  std::atomic<int> most = 0;
  std::thread producer([&] {
    for (int i = 0; i < kValues; ++i) {
      EXPECT_TRUE(queue.push(i));
      most = std::max<int>(most, ++under_way);
    }
    queue.close();
  });
  int expected = 0;
  while (const std::optional<int> value = queue.pop()) {
    EXPECT_EQ(*value, expected++);
    --under_way;
  }
  producer.join();
  EXPECT_EQ(expected, kValues);
  EXPECT_LE(most, kCapacity + 1);
}

TEST(BoundedQueueTest, ManyProducersAndConsumersLoseNothing) {
  constexpr int kEach = 1000;
  BoundedQueue<int> queue(8);
  std::vector<std::thread> producers;
  for (int p = 0; p < 3; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(queue.push(p * kEach + i));
    });
  }
  std::vector<std::vector<int>> got(3);
  std::vector<std::thread> consumers;
  for (auto& mine : got) {
    consumers.emplace_back([&] {
      while (const std::optional<int> value = queue.pop()) mine.push_back(*value);
    });
  }
  for (std::thread& producer : producers) producer.join();
  queue.close();
  for (std::thread& consumer : consumers) consumer.join();
  std::vector<int> all;
  for (const auto& mine : got) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  std::vector<int> expected(3 * kEach);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(BoundedQueueDeathTest, ACapacityOfZeroIsABug) {
  EXPECT_DEATH(BoundedQueue<int>(0), "capacity > 0");
}

}  // namespace
}  // namespace millrace
