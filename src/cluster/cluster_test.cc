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

class ClusterTest : public ::testing::Test {
 protected:
  store::StoreOptions options() const {
    store::StoreOptions options;
    options.state_directory = directory_.path("state");
    return options;
  }

  const testing::TemporaryDirectory directory_;
  Log log_{LogLevel::kWarn};
  const std::unique_ptr<store::LocalStore> store_ = store::LocalStore::open(options(), log_).take();
  Workers workers_{1};
};

TEST_F(ClusterTest, AListByAnOldMapOrWithoutALeaseIsRefused) {
  testing::Alone around;
  Cluster cluster({around, around, around, around}, store_->slices(), workers_, Blocks(),
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
  workers_.stop();
}

// Node 2 is asked, and does not answer.
class SilentOther final : public testing::Alone {
 public:
  SilentOther() : Alone({make_other()}) {}
  void call(uint32_t, Request request, Done<Reply> done) override {
    ASSERT_TRUE(std::holds_alternative<MendRequest>(request));
    asked.push_back(std::move(done));
  }

  std::vector<Done<Reply>> asked;

 private:
  static MapNode make_other() {
    MapNode node;
    node.id = "other";
    node.number = 2;
    node.address = "127.0.0.1:2";
    node.drives.push_back({"drive"});
    return node;
  }
};

TEST_F(ClusterTest, SoManyKeysAreMendedAtOnceAndNoMore) {
  SilentOther around;
  Cluster cluster({around, around, around, around}, store_->slices(), workers_, Blocks(),
                  [] { return Status(); });
  for (size_t i = 0; i < Cluster::kMostMends; ++i)
    EXPECT_TRUE(cluster.ask_to_mend({"bucket", std::to_string(i)}));
  EXPECT_FALSE(cluster.ask_to_mend({"bucket", "key"}));
  EXPECT_EQ(around.asked.size(), Cluster::kMostMends);
  around.asked.back()(make_error(Code::kUnavailable, "too late"));
  EXPECT_TRUE(cluster.ask_to_mend({"bucket", "key"}));
  workers_.stop();
}

}  // namespace
}  // namespace millrace::cluster
