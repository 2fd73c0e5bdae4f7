// A node that heals at full speed while nobody asks, and rests between its steps while somebody does.
#include "cluster/heal_pace.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace::cluster {
namespace {

constexpr uint64_t kStepUs = 1000;

TEST(HealPaceTest, RestsOnlyWhileClientsAsk) {
  HealPace pace;
  pace.set_share(0.2);
  EXPECT_EQ(pace.share(), 1.0);
  EXPECT_EQ(pace.rest_us(kStepUs), 0U);
  pace.note_client();
  EXPECT_EQ(pace.share(), 0.2);
  EXPECT_EQ(pace.rest_us(kStepUs), 4 * kStepUs);
  pace.set_share(1.0);
  EXPECT_EQ(pace.rest_us(kStepUs), 0U);
}

TEST(HealPaceTest, StepsTakeTurnsWhileClientsAsk) {
  HealPace pace;
  pace.set_share(0.5);
  pace.note_client();
  const std::atomic<bool> stopping = false;
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      pace.note_client();
      pace.step(stopping, [&] {
        most = std::max<int>(most, ++at_once);
        const uint64_t until_us = steady_us() + kStepUs;
        while (steady_us() < until_us) std::this_thread::yield();
        return --at_once;
      });
    });
  }
  threads.clear();
  EXPECT_EQ(most, 1);
}

TEST(HealPaceTest, WhoeverStopsDoesNotWaitForTheRest) {
  HealPace pace;
  pace.set_share(1e-9);  // rests for days
  pace.note_client();
  std::atomic<bool> stopping = false;
  const auto work = [] {
    const uint64_t until_us = steady_us() + kStepUs;
    while (steady_us() < until_us) std::this_thread::yield();
    return 7;
  };
  EXPECT_EQ(pace.step(stopping, work), 7);
  stopping = true;
  pace.note_client();
  EXPECT_EQ(pace.step(stopping, work), 7);
}

}  // namespace
}  // namespace millrace::cluster
