// What a node of a cluster answers itself, before any drive is asked.
#include "cluster/cluster.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_directory.h"
#include "cluster/reasons.h"
#include "cluster/testing/alone.h"
#include "store/local_store.h"
#include "store/waiting.h"

namespace millrace::cluster {
namespace {

TEST(ClusterTest, AListByAnOldMapOrWithoutALeaseIsRefused) {
  const testing::TemporaryDirectory directory;
  Log log{LogLevel::kWarn};
  store::StoreOptions options;
  options.state_directory = directory.path("state");
  const auto store = store::LocalStore::open(options, log).take();
  Workers workers(1);
  testing::Alone around;
  Cluster cluster({around, around, around, around}, store->slices(), workers, Blocks(),
                  [] { return Status(); });
  const auto list = [&](uint32_t epoch) {
    return store::wait_for<Reply>(
        [&](Done<Reply> done) { cluster.handle(ListRequest{epoch, "b", "", "", 10}, std::move(done)); });
  };
  EXPECT_TRUE(list(5));
  EXPECT_TRUE(list(6));
  EXPECT_TRUE(list(4).error().is(kOldEpoch));
  around.promise_made = 7;
  EXPECT_TRUE(list(6).error().is(kOldEpoch));
  EXPECT_TRUE(list(7));
  around.lease = false;
  EXPECT_TRUE(list(7).error().is(kNotHome));
  workers.stop();
}

}  // namespace
}  // namespace millrace::cluster
