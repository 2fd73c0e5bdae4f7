// What a node of a cluster answers itself, before any drive is asked.
#include "cluster/cluster.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_directory.h"
#include "cluster/reasons.h"
#include "store/local_store.h"
#include "store/waiting.h"

namespace millrace::cluster {
namespace {

// A node that knows epoch 5.
class Alone final : public Strand, public Peers, public Membership, public Shelf {
 public:
  void post(std::function<void()> work) override { work(); }
  void after(uint64_t, std::function<void()>) override {}
  uint64_t now_us() const override { return 0; }
  uint64_t random() override { return 0; }
  void call(uint32_t, Request, Done<Reply>) override { FAIL() << "nobody is to be asked"; }
  uint32_t self() const override { return 1; }
  std::shared_ptr<const Maps> maps() const override { return maps_; }
  bool has_lease() const override { return lease; }
  void look_again() override {}
  Result<Redundancy> redundancy(const std::string&) const override { return Redundancy(); }
  void note_walked(Walked) override {}
  bool in_service(DriveId) const override { return true; }
  void read(DriveId, const ObjectName&, Done<Ledger> done) override { done(Ledger()); }
  void write(DriveId, const ObjectName&, const Ledger&, Haste, Done<void> done) override { done({}); }
  void list(DriveId, const ObjectName&, size_t, Done<std::vector<Row>> done) override {
    done(std::vector<Row>());
  }
  void put_slice(DriveId, const store::Spread&, std::string, Done<void> done) override { done({}); }
  void drop_slice(DriveId, const store::Spread&) override {}
  bool is_dropped(DriveId, const store::Spread&) const override { return false; }
  uint32_t promised() const override { return promise_made; }
  void promise(uint32_t, Done<void> done) override { done({}); }

  bool lease = true;
  uint32_t promise_made = 0;

 private:
  std::shared_ptr<const Maps> maps_ =
      std::make_shared<const Maps>(Maps{std::make_shared<const Map>("c", 5, 1, std::vector<MapNode>())});
};

TEST(ClusterTest, AListByAnOldMapOrWithoutALeaseIsRefused) {
  const testing::TemporaryDirectory directory;
  Log log{LogLevel::kWarn};
  store::StoreOptions options;
  options.state_directory = directory.path("state");
  const auto store = store::LocalStore::open(options, log).take();
  Workers workers(1);
  Alone around;
  Cluster cluster({around, around, around, around}, store->slices(), workers, [] { return Status(); });
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
