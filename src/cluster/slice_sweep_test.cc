// Slices that an earlier run of the node left, with and without ledgers.
#include "cluster/slice_sweep.h"

#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"
#include "base/testing/temporary_directory.h"
#include "cluster/slice_shelf.h"
#include "store/local_store.h"
#include "store/testing/store_fixture.h"
#include "store/waiting.h"

namespace millrace::cluster {
namespace {

using store::testing::some_bytes;

class SliceSweepTest : public ::testing::Test {
 protected:
  SliceSweepTest() { restart(); }

  void restart() {
    store_.reset();
    store::StoreOptions options;
    options.state_directory = directory_.path("state");
    options.reserve_bytes = 0;
    store_ = store::LocalStore::open(options, log_).take();
    store_->slices().prepare().take();
    drive_ = store_->slices().drives().front().hash;
  }
  store::Slices& slices() { return store_->slices(); }
  static store::Spread spread_of(const std::string& write) {
    store::Spread spread;
    spread.write_id = write + std::string(store::kWriteIdBytes - write.size(), '-');
    spread.holders = {1};
    return spread;
  }
  std::string name_of(const std::string& write) const {
    return slice_name(spread_of(write).write_id, 0, drive_);
  }
  void put(const std::string& write, size_t size = 200'000) {
    const auto writer = slices().put(drive_, name_of(write), std::nullopt).take();
    store::fill(*writer, some_bytes(size, 1)).take();
    ASSERT_TRUE(store::testing::finish(*writer));
  }
  void write(const std::string& key, const Ledger& ledger) {
    store::Encoder out;
    encode_ledger(out, ledger);
    slices().write_ledger(drive_, "bucket", key, std::move(out).take(), store::Sync::kYes).take();
  }
  enum class Slice { kHere, kElsewhere };
  static Ledger marked(const std::string& write, Slice slice) {
    store::Record record;
    record.version = {5, 1, 1};
    record.size = 200'000;
    record.pieces = {{0, 200'000}};
    record.spread = spread_of(write);
    Ledger ledger;
    ledger.mark = Mark{record, true, slice == Slice::kHere, ""};
    return ledger;
  }
  bool is_here(const std::string& write) { return slices().get(name_of(write)).has_value(); }
  uint64_t sweep(int64_t after_ms = 2 * SliceSweep::kLeastAgeMs) {
    return SliceSweep(slices(), log_).sweep(drive_, wall_ms() + after_ms).take();
  }

  const testing::TemporaryDirectory directory_;
  Log log_{LogLevel::kWarn};
  std::unique_ptr<store::LocalStore> store_;
  DriveId drive_ = 0;
};

TEST_F(SliceSweepTest, WhatNoLedgerNamesGoesAfterTheNextStart) {
  put("orphan");
  put("small orphan", 100);
  put("moved");
  put("marked");
  put("prepared");
  Ledger prepared;
  prepared.prepared.push_back({spread_of("prepared"), ""});
  write("a", prepared);
  write("b", marked("marked", Slice::kHere));
  write("c", marked("moved", Slice::kElsewhere));
  EXPECT_EQ(sweep(), 0u) << "this process may still write their ledgers";
  restart();
  EXPECT_EQ(sweep(SliceSweep::kLeastAgeMs / 2), 0u) << "they are not old enough";
  EXPECT_EQ(sweep(), 3u);
  EXPECT_FALSE(is_here("orphan") || is_here("small orphan") || is_here("moved"));
  EXPECT_TRUE(is_here("marked") && is_here("prepared"));
  EXPECT_EQ(sweep(), 0u);
}

TEST_F(SliceSweepTest, WhatIsReplacedAndNotYetRemovedAtAStopGoes) {
  put("replaced");
  slices().doom(name_of("replaced"));
  restart();
  EXPECT_EQ(sweep(), 1u);
  EXPECT_FALSE(is_here("replaced"));
}

TEST_F(SliceSweepTest, WhatThisProcessWritesAgainOrRemovesItselfIsLeftAlone) {
  put("again");
  put("doomed");
  put("being written");
  restart();
  const auto old = slices().list_old(drive_, "", 10).take();
  ASSERT_EQ(old.slices.size(), 3u);
  put("again");
  slices().doom(name_of("doomed"));
  // The old slice goes; the one that is being written comes in its place.
  const auto writer = slices().put(drive_, name_of("being written"), std::nullopt).take();
  store::fill(*writer, some_bytes(300'000, 2)).take();
  EXPECT_EQ(sweep(), 1u);
  for (const store::Slices::OldSlice& one : old.slices) EXPECT_FALSE(*slices().remove_old(one)) << one.name;
  ASSERT_TRUE(store::testing::finish(*writer));
  EXPECT_TRUE(is_here("again") && is_here("doomed") && is_here("being written"));
}

TEST_F(SliceSweepTest, ALedgerThatCannotBeReadKeepsEverything) {
  put("orphan");
  slices().write_ledger(drive_, "bucket", "key", "nonsense", store::Sync::kYes).take();
  restart();
  EXPECT_FALSE(SliceSweep(slices(), log_).sweep(drive_, wall_ms() + 2 * SliceSweep::kLeastAgeMs));
  EXPECT_TRUE(is_here("orphan"));
}

TEST_F(SliceSweepTest, PagesOfOldSlicesFollowEachOther) {
  for (int i = 0; i < 5; ++i) put("slice " + std::to_string(i), 10);
  restart();
  std::vector<std::string> names;
  store::Slices::OldSlices page;
  do {
    page = slices().list_old(drive_, page.reached, 2).take();
    for (const auto& one : page.slices) names.push_back(one.name);
  } while (!page.reached.empty());
  EXPECT_EQ(names.size(), 5u);
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

}  // namespace
}  // namespace millrace::cluster
