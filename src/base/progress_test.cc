// Progress: counters from many threads, and the line they make.
#include "base/progress.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(ProgressTest, AddsUpOverThreads) {
  Progress progress;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) progress.add(10, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(progress.bytes(), 40'000u);
  EXPECT_EQ(progress.items(), 4000u);
}

TEST(ProgressLineTest, ShowsShareRateAndTimeLeftWhereTheTotalIsKnown) {
  Progress progress;
  progress.expect(4'000'000'000);
  progress.add(1'000'000'000, 11'000);
  EXPECT_EQ(progress_line(progress, {.what = "sharding"}, 10),
            "sharding  [######··················]   25 %  1.0 GB  100.0 MB/s  11 000 samples  0:30 left");
}

TEST(ProgressLineTest, ShowsNoBarWhereTheTotalIsUnknown) {
  Progress progress;
  progress.add(1000, 1);
  EXPECT_EQ(progress_line(progress, {.what = "reading"}, 1), "reading  1.0 kB  1.0 kB/s  1 samples");
}

TEST(ProgressLineTest, StandsBeforeTheFirstByteAndTheFirstSecond) {
  Progress progress;
  progress.expect(100);
  EXPECT_EQ(progress_line(progress, {.what = "reading"}, 0),
            "reading  [························]    0 %  0 B  0 B/s  0 samples");
}

TEST(ProgressLineTest, NeverShowsMoreThanAllOfIt) {
  Progress progress;
  progress.expect(100);
  progress.add(250, 2);
  EXPECT_EQ(progress_line(progress, {.what = "reading"}, 1),
            "reading  [########################]  100 %  250 B  250 B/s  2 samples");
}

TEST(ProgressLineTest, CountsObjectsInATransfer) {
  Progress progress;
  progress.add(1000, 1);
  EXPECT_EQ(progress_line(progress, {"sending", "objects"}, 1), "sending  1.0 kB  1.0 kB/s  1 objects");
}

TEST(ProgressBarTest, StaysSilentWhereNoTerminalIsThere) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress;
    const ProgressBar bar(progress, {.what = "reading"});
    progress.add(1, 1);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace millrace
