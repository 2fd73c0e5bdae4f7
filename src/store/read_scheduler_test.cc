// The reader's schedule against a drive of known cost: larger windows must pay off, and nobody waits for
// long.
#include "store/read_scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

namespace millrace::store {
namespace {

// A drive with heads, in simulated time: moving to another stream costs a seek, bytes cost their transfer.
struct SimulatedDrive {
  static constexpr double kSeek_ms = 8.0;
  static constexpr double kBytesPerMs = 200'000.0;
  double elapsed_ms = 0;
  int last_stream = -1;

  void read(int stream, double bytes) {
    if (stream != last_stream) elapsed_ms += kSeek_ms;
    last_stream = stream;
    elapsed_ms += bytes / kBytesPerMs;
  }
};

double throughput(int streams, double window) {
  SimulatedDrive drive;
  constexpr double kBytesEach = 64e6;
  ReadScheduler scheduler(1);
  std::promise<void> all_done;
  std::atomic<int> left = streams;
  std::vector<std::function<void()>> next(static_cast<size_t>(streams));
  std::vector<double> done(static_cast<size_t>(streams), 0);
  for (int stream = 0; stream < streams; ++stream) {
    const auto at = static_cast<size_t>(stream);
    next[at] = [&, stream, at] {
      drive.read(stream, window);
      done[at] += window;
      if (done[at] < kBytesEach) {
        EXPECT_TRUE(scheduler.read(next[at]));
      } else if (--left == 0) {
        all_done.set_value();
      }
    };
  }
  // No stream runs ahead while the others are still asking for the first time.
  std::promise<void> begin;
  EXPECT_TRUE(scheduler.read([&] { begin.get_future().wait(); }));
  for (const auto& first : next) EXPECT_TRUE(scheduler.read(first));
  begin.set_value();
  all_done.get_future().wait();
  scheduler.stop();
  return kBytesEach * streams / drive.elapsed_ms;
}

TEST(ReadSchedulerTest, SixteenStreamsGainFromLargerWindows) {
  double before = 0;
  for (const double window : {64e3, 256e3, 1e6, 4e6}) {
    const double now = throughput(16, window);
    EXPECT_GT(now, 1.3 * before) << window;
    before = now;
  }
  // With 4 MB windows most of the drive's speed is left; with 64 KB next to nothing.
  EXPECT_GT(throughput(16, 4e6), 0.6 * SimulatedDrive::kBytesPerMs);
  EXPECT_LT(throughput(16, 64e3), 0.1 * SimulatedDrive::kBytesPerMs);
}

TEST(ReadSchedulerTest, StreamsTakeTurns) {
  ReadScheduler scheduler(1);
  std::promise<void> hold;
  std::promise<void> held;
  ASSERT_TRUE(scheduler.read([&] {
    held.set_value();
    hold.get_future().wait();
  }));
  held.get_future().wait();
  std::vector<int> order;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(scheduler.read([&order, i] { order.push_back(i); }));
    scheduler.prefetch([&order] { order.push_back(-1); });
  }
  EXPECT_EQ(scheduler.waiting(), 8u);
  hold.set_value();
  while (scheduler.waiting() > 0) std::this_thread::yield();
  scheduler.stop();
  ASSERT_GE(order.size(), 8u);
  // Those who wait come first, in the order they came.
  for (int i = 0; i < 8; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_FALSE(scheduler.read([] {}));
}

}  // namespace
}  // namespace millrace::store
