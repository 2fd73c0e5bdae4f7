// What is to be done for an object, by what the drives said.
#include "cluster/mending.h"

#include <gtest/gtest.h>

namespace millrace::cluster {
namespace {

const std::string kWrite = "0123456789abcdef";

// An object and the drives that know of it.
class MendingTest : public ::testing::Test {
 protected:
  MendingTest() {
    last.version = {3, 1, 1};
    last.spread = {1, 2, 0, 0, kWrite, {1, 2, 3}};
  }

  // A drive that has the newest mark and, if a slot is given, its slice.
  void know(DriveId drive, std::optional<unsigned> slot) {
    Mark mark{last, true, slot.has_value(), ""};
    mark.record.spread.slot = static_cast<uint8_t>(slot.value_or(0));
    heard[drive].mark = mark;
  }
  Mending plan(const std::vector<DriveId>& placement, size_t wanted = 3) {
    return plan(placement, placement, wanted);
  }
  Mending plan(const std::vector<DriveId>& placement, const std::vector<DriveId>& takers, size_t wanted) {
    return plan_mending({last, placement, wanted, takers, placement, heard,
                         [this](DriveId drive) { return returning.contains(drive); }});
  }

  store::Record last;
  std::map<DriveId, Ledger> heard;
  std::set<DriveId> returning;
};

std::vector<std::pair<unsigned, DriveId>> pairs(const std::vector<Mending::Slice>& slices) {
  std::vector<std::pair<unsigned, DriveId>> found;
  for (const Mending::Slice& slice : slices) found.emplace_back(slice.slot, slice.drive);
  return found;
}

using Slices = std::vector<std::pair<unsigned, DriveId>>;
using Drives = std::vector<DriveId>;

TEST_F(MendingTest, AnObjectInItsPlaceNeedsNothing) {
  for (const DriveId drive : {1, 2, 3}) know(drive, static_cast<unsigned>(drive - 1));
  const Mending mending = plan({1, 2, 3});
  EXPECT_FALSE(mending.moves);
  EXPECT_FALSE(mending.waits);
  EXPECT_TRUE(mending.builds.empty());
  EXPECT_TRUE(mending.unmarked.empty());
  EXPECT_TRUE(mending.strays.empty());
  EXPECT_EQ(mending.slices, 3u);
}

TEST_F(MendingTest, AnotherCopyIsMadeWhereTheBucketWantsMore) {
  for (const DriveId drive : {1, 2, 3}) know(drive, static_cast<unsigned>(drive - 1));
  heard[4];
  const Mending mending = plan({1, 2, 3, 4}, 4);
  EXPECT_TRUE(mending.moves);
  EXPECT_EQ(mending.holders, (Drives{1, 2, 3, 4}));
  EXPECT_EQ(pairs(mending.builds), (Slices{{3, 4}}));
}

TEST_F(MendingTest, ACopyTooManyIsLetGoOnceTheCommitSaysSo) {
  for (const DriveId drive : {1, 2, 3}) know(drive, static_cast<unsigned>(drive - 1));
  const Mending mending = plan({1, 2}, 2);
  EXPECT_TRUE(mending.moves);
  EXPECT_EQ(mending.holders, (Drives{1, 2}));
  EXPECT_TRUE(mending.builds.empty());
  EXPECT_EQ(mending.strays, (Drives{3}));
}

TEST_F(MendingTest, AFullDriveKeepsItsSliceAndGetsNone) {
  for (const DriveId drive : {1, 2, 3}) know(drive, static_cast<unsigned>(drive - 1));
  heard[4];
  Mending mending = plan({1, 2, 3}, {1, 4, 3}, 3);
  EXPECT_FALSE(mending.moves);
  EXPECT_TRUE(mending.builds.empty());
  // Its slice is gone: another drive takes its turn.
  know(2, std::nullopt);
  mending = plan({1, 2, 3}, {1, 4, 3}, 3);
  EXPECT_EQ(mending.holders, (Drives{1, 4, 3}));
  EXPECT_EQ(pairs(mending.builds), (Slices{{1, 4}}));
  EXPECT_TRUE(mending.strays.empty());
  // Nobody takes it: the object stays as it is.
  mending = plan({1, 2, 3}, {1, 3}, 3);
  EXPECT_EQ(mending.holders, (Drives{1, 2, 3}));
  EXPECT_TRUE(mending.builds.empty());
  EXPECT_TRUE(mending.waits);
}

TEST_F(MendingTest, WhatTookTheTurnOfAFullDriveStaysUntilThatHasRoom) {
  last.spread.holders = {1, 4, 3};
  know(1, 0);
  know(2, std::nullopt);
  know(3, 2);
  know(4, 1);
  Mending mending = plan({1, 2, 3}, {1, 4, 3}, 3);
  EXPECT_FALSE(mending.moves);
  EXPECT_TRUE(mending.builds.empty());
  EXPECT_TRUE(mending.strays.empty());
  mending = plan({1, 2, 3});
  EXPECT_EQ(mending.holders, (Drives{1, 2, 3}));
  EXPECT_EQ(pairs(mending.builds), (Slices{{1, 2}}));
}

TEST_F(MendingTest, ALostDrivesSliceIsMadeOnTheDriveThatIsNewInThePlacement) {
  know(1, 0);
  know(3, 2);
  heard[4];
  const Mending mending = plan({1, 3, 4});
  EXPECT_TRUE(mending.moves);
  EXPECT_EQ(mending.holders, (Drives{1, 4, 3}));
  EXPECT_EQ(pairs(mending.builds), (Slices{{1, 4}}));
}

TEST_F(MendingTest, ADriveThatMayReturnIsWaitedFor) {
  know(1, 0);
  know(3, 2);
  heard[4];
  returning = {2};
  const Mending mending = plan({1, 3, 4});
  EXPECT_FALSE(mending.moves);
  EXPECT_TRUE(mending.waits);
  EXPECT_TRUE(mending.builds.empty());
}

TEST_F(MendingTest, ADrainedDrivesSliceMovesAndThenItsRowGoes) {
  for (const DriveId drive : {1, 2, 3}) know(drive, static_cast<unsigned>(drive - 1));
  heard[4];
  const Mending moving = plan({1, 3, 4});
  EXPECT_EQ(moving.holders, (Drives{1, 4, 3}));
  EXPECT_EQ(pairs(moving.builds), (Slices{{1, 4}}));

  last.spread.holders = {1, 4, 3};
  know(1, 0);
  know(3, 2);
  know(4, 1);
  const Mending moved = plan({1, 3, 4});
  EXPECT_FALSE(moved.moves);
  EXPECT_TRUE(moved.builds.empty());
  EXPECT_EQ(moved.strays, (Drives{2}));
}

TEST_F(MendingTest, WhereDrivesLackAnOldPlaceIsKept) {
  for (const DriveId drive : {1, 2, 3}) know(drive, static_cast<unsigned>(drive - 1));
  const Mending mending = plan({1, 3});
  EXPECT_FALSE(mending.moves);
  EXPECT_TRUE(mending.strays.empty());
  EXPECT_TRUE(mending.waits);
}

TEST_F(MendingTest, ADriveWithAnotherDrivesSliceGetsOneOfItsOwnAndKeepsTheOldUntilThen) {
  // Drive 2 has slot 0 of before; slot 1 was lost with its drive.
  know(1, 0);
  know(3, 2);
  know(2, std::nullopt);
  heard[2].prepared.push_back({{1, 2, 0, 0, kWrite, {2, 5, 3}}, ""});
  last.spread.holders = {1, 5, 3};
  const Mending mending = plan({1, 2, 3});
  EXPECT_EQ(mending.holders, (Drives{1, 2, 3}));
  EXPECT_EQ(pairs(mending.builds), (Slices{{1, 2}}));
  EXPECT_EQ(pairs(mending.superfluous), (Slices{{0, 2}}));
}

TEST_F(MendingTest, WhoDoesNotKnowTheNewestWriteIsTold) {
  know(1, 0);
  know(2, 1);
  know(3, 2);
  heard[3].mark->complete = false;
  heard[2].mark->record.version = {2, 9, 1};
  const Mending mending = plan({1, 2, 3});
  EXPECT_EQ(mending.unmarked, (Drives{2}));
  EXPECT_EQ(mending.incomplete, (Drives{3}));
}

TEST_F(MendingTest, ATombstoneNeedsMarksAndNoSlices) {
  last.deleted = true;
  last.spread = {};
  know(1, std::nullopt);
  heard[2];
  know(7, std::nullopt);
  const Mending mending = plan({1, 2}, 2);
  EXPECT_TRUE(mending.builds.empty());
  EXPECT_FALSE(mending.moves);
  EXPECT_EQ(mending.unmarked, (Drives{2}));
  EXPECT_EQ(mending.strays, (Drives{7}));
}

}  // namespace
}  // namespace millrace::cluster
