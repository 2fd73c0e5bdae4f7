// Tests rounds, wakes and the end of Background without a clock: each test waits for what it expects.
#include "base/background.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace millrace {
namespace {

TEST(BackgroundTest, BeginsAtOnceAndGoesRoundWhenWoken) {
  std::atomic<int> rounds = 0;
  Background background;
  background.start(Background::kWhenWoken, [&] {
    ++rounds;
    rounds.notify_all();
  });
  rounds.wait(0);
  EXPECT_EQ(rounds, 1);
  background.wake();
  rounds.wait(1);
  EXPECT_EQ(rounds, 2);
}

TEST(BackgroundTest, GoesRoundEverySoOften) {
  std::latch three(3);
  std::atomic<int> left = 3;
  Background background;
  background.start(std::chrono::milliseconds(1), [&] {
    if (left.fetch_sub(1) > 0) three.count_down();
  });
  three.wait();
}

TEST(BackgroundTest, AWakeDuringARoundMeansAnotherOne) {
  std::latch began(1);
  std::latch woken(1);
  std::atomic<int> rounds = 0;
  Background background;
  background.start(Background::kWhenWoken, [&] {
    if (rounds == 0) {
      began.count_down();
      woken.wait();
    }
    ++rounds;
    rounds.notify_all();
  });
  began.wait();
  background.wake();
  woken.count_down();
  rounds.wait(0);
  rounds.wait(1);
  EXPECT_EQ(rounds, 2);
}

TEST(BackgroundTest, StopEndsAPauseAndWaitsForTheRound) {
  std::latch began(1);
  std::atomic<bool> went_on = true;
  std::atomic<bool> finished = false;
  Background background;
  background.start(Background::kWhenWoken, [&] {
    began.count_down();
    went_on = background.pause(std::chrono::hours(1)) || background.goes_on();
    finished = true;
  });
  began.wait();
  EXPECT_TRUE(background.goes_on());
  background.stop();
  EXPECT_TRUE(finished);
  EXPECT_FALSE(went_on);
  EXPECT_FALSE(background.goes_on());
  background.stop();
}

TEST(BackgroundTest, AWakeDoesNotShortenAPause) {
  std::latch began(1);
  std::atomic<bool> paused_whole = false;
  Background background;
  background.start(Background::kWhenWoken, [&] {
    if (paused_whole) return;
    began.count_down();
    paused_whole = background.pause(std::chrono::milliseconds(20));
    paused_whole.notify_all();
  });
  began.wait();
  background.wake();
  paused_whole.wait(false);
  EXPECT_TRUE(paused_whole);
}

TEST(BackgroundTest, StoppingWhatNeverStartedIsNothing) {
  Background background;
  background.wake();
  background.stop();
  EXPECT_FALSE(background.goes_on());
}

}  // namespace
}  // namespace millrace
