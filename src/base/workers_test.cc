// Workers do what they took, all of it, and nothing else.
#include "base/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace millrace {
namespace {

TEST(WorkersTest, FinishesWhatWasQueuedBeforeStop) {
  std::atomic<int> done = 0;
  Workers workers(3);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(workers.submit([&done] { ++done; }));
  workers.stop();
  EXPECT_EQ(done, 1000);
  EXPECT_FALSE(workers.submit([&done] { ++done; }));
  EXPECT_EQ(done, 1000);
}

TEST(WorkersTest, RefusesWhatWouldWaitBehindTooManyOthers) {
  std::promise<void> begun;
  std::promise<void> go;
  Workers workers(1, 2);
  ASSERT_TRUE(workers.submit([&] {
    begun.set_value();
    go.get_future().wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(workers.submit([] {}));
  EXPECT_TRUE(workers.submit([] {}));
  EXPECT_FALSE(workers.submit([] {}));
  EXPECT_EQ(workers.waiting(), 2U);
  go.set_value();
}

}  // namespace
}  // namespace millrace
