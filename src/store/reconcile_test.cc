// Drives that were away or failed while others were written: nothing old comes back with them.
#include "store/reconcile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/file.h"
#include "store/testing/store_fixture.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;
using namespace testing;  // NOLINT: the fixture's verbs

class ReturningDrivesTest : public ::testing::Test, protected StoreFixture {
 protected:
  static constexpr size_t kLarge = 100'000;

  size_t data_files(size_t drive) {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(drive_path(drive) + "/data"))
      count += entry.is_regular_file() ? 1 : 0;
    return count;
  }
  // A key whose object lies on this drive.
  std::string key_on(size_t drive) {
    for (int i = 0; i < 1000; ++i) {
      const std::string key = "key" + std::to_string(i);
      const size_t before = data_files(drive);
      put(*store_, "data", key, some_bytes(kLarge, 1)).take();
      if (data_files(drive) > before) return key;
    }
    ADD_FAILURE() << "no object went to drive " << drive;
    return "";
  }
  void take_away(size_t drive) {
    store_.reset();
    fs::rename(drive_path(drive), drive_path(drive) + "-away");
    open(2);
  }
  void put_back(size_t drive) {
    store_.reset();
    fs::rename(drive_path(drive) + "-away", drive_path(drive));
    open(2);
  }
  DriveState state_of(size_t drive) {
    for (const DriveStatus& status : store_->drives()) {
      if (status.path == drive_path(drive)) return status.state;
    }
    return DriveState::kMissing;
  }
  template <typename Condition>
  void wait_until(Condition condition) {
    for (int i = 0; i < 30'000; ++i) {
      if (condition()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << "it did not come about";
  }
};

TEST_F(ReturningDrivesTest, AnOverwrittenVersionDoesNotComeBackWithItsDrive) {
  open(2);
  const std::string key = key_on(1);
  take_away(1);
  ASSERT_TRUE(put(*store_, "data", key, "two"));
  put_back(1);
  EXPECT_EQ(*get(*store_, "data", key), "two");
  take_away(0);
  EXPECT_EQ(get(*store_, "data", key).error().code(), Code::kUnavailable);
  put_back(0);
  EXPECT_EQ(*get(*store_, "data", key), "two");
}

TEST_F(ReturningDrivesTest, DrivesThatReplaceEachOtherInOneRestartShowNothingOld) {
  open(2);
  const std::string key = key_on(1);
  take_away(1);
  ASSERT_TRUE(put(*store_, "data", key, some_bytes(kLarge, 2)));
  store_.reset();
  fs::rename(drive_path(1) + "-away", drive_path(1));
  fs::rename(drive_path(0), drive_path(0) + "-away");
  open(2);
  EXPECT_EQ(get(*store_, "data", key).error().code(), Code::kUnavailable);
  // Neither does a condition see the old version.
  PutOptions conditional;
  conditional.bucket = "data";
  conditional.key = key;
  conditional.condition.only_if_etag = "*";
  EXPECT_EQ(put(*store_, conditional, "x").error().code(), Code::kUnavailable);
}

TEST_F(ReturningDrivesTest, WhatWasOverwrittenGoesFromTheDriveThatReturns) {
  open(2);
  const std::string key = key_on(1);
  const size_t before = data_files(1);
  take_away(1);
  ASSERT_TRUE(put(*store_, "data", key, "two"));
  put_back(1);
  wait_until([&] { return data_files(1) == before - 1; });
  EXPECT_EQ(*get(*store_, "data", key), "two");
}

TEST_F(ReturningDrivesTest, ADriveThatWasAwayAndMissedNothingServesWithoutTheOthersOnceItWasCompared) {
  open(2);
  const std::string key = key_on(1);
  take_away(1);
  put_back(1);
  // The comparison is over when the list says so.
  const auto is_behind = [&] {
    std::string text;
    for (const char letter : read_file(directory_.path("state") + "/node.json", 1 << 20).take())
      text += letter;
    return text.find("\"behind\": true") != std::string::npos;
  };
  wait_until([&] { return !is_behind(); });
  take_away(0);
  EXPECT_EQ(*get(*store_, "data", key), some_bytes(kLarge, 1));
}

TEST_F(ReturningDrivesTest, ADriveWhoseDirectoryIsGoneFailsAtOnceAndOthersTakeItsObjects) {
  open(2);
  const std::string key = key_on(1);
  store_.reset();
  open(2);
  fs::rename(drive_path(1), drive_path(1) + "-away");
  fs::create_directory(drive_path(1));  // as a mount point that is left
  EXPECT_EQ(get(*store_, "data", key).error().code(), Code::kUnavailable);
  ASSERT_TRUE(put(*store_, "data", key, some_bytes(kLarge, 2)));
  EXPECT_EQ(*get(*store_, "data", key), some_bytes(kLarge, 2));
  EXPECT_EQ(state_of(1), DriveState::kFailed);
  EXPECT_TRUE(fs::is_empty(drive_path(1)));

  fs::remove(drive_path(1));
  fs::rename(drive_path(1) + "-away", drive_path(1));
  wait_until([&] { return state_of(1) == DriveState::kServing; });
  EXPECT_EQ(*get(*store_, "data", key), some_bytes(kLarge, 2));
  take_away(0);
  EXPECT_EQ(get(*store_, "data", key).error().code(), Code::kUnavailable);
}

TEST_F(ReturningDrivesTest, ALostIdentityFileOrDirectoryFailsTheDrive) {
  open(2);
  const std::string key = key_on(1);
  const std::string identity = read_file(drive_path(1) + "/millrace.json", 1 << 20).take();
  fs::remove(drive_path(1) + "/millrace.json");
  wait_until([&] { return state_of(1) == DriveState::kFailed; });
  write_file_atomically(drive_path(1) + "/millrace.json", identity).take();
  wait_until([&] { return state_of(1) == DriveState::kServing; });
  EXPECT_EQ(*get(*store_, "data", key), some_bytes(kLarge, 1));
}

TEST_F(ReturningDrivesTest, ARemovedDriveThatTheSettingsStillNameIsNotServed) {
  open(2);
  ASSERT_TRUE(store_->drain_drive(drive_path(1)));
  EXPECT_EQ(store_->drain_drive(drive_path(0)).error().code(), Code::kInvalid);
  wait_until([&] { return store_->remove_drive(drive_path(1)).has_value(); });
  open(2);
  EXPECT_EQ(store_->drives().size(), 1U);
  ASSERT_TRUE(store_->add_drive(drive_path(1)));
  open(2);
  EXPECT_EQ(store_->drives().size(), 2U);
}

TEST_F(ReturningDrivesTest, ADriveThatWasGivenUpBringsNothingBackUnlessAskedTo) {
  open(2);
  const std::string key = key_on(1);
  take_away(1);
  ASSERT_TRUE(store_->remove_drive(drive_path(1)));
  fs::remove(drive_path(1));
  fs::rename(drive_path(1) + "-away", drive_path(1));
  const Status refused = store_->add_drive(drive_path(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  EXPECT_NE(refused.error().message().find("given up for lost"), std::string::npos);
  EXPECT_EQ(get(*store_, "data", key).error().code(), Code::kNotFound);
  EXPECT_EQ(store_->drives().size(), 1U);
  ASSERT_TRUE(store_->add_drive(drive_path(1), GivenUp::kTakeBack));
  EXPECT_EQ(*get(*store_, "data", key), some_bytes(kLarge, 1));
}

TEST_F(ReturningDrivesTest, ADriveThatWasGivenUpIsTakenEmpty) {
  open(2);
  const std::string key = key_on(1);
  take_away(1);
  ASSERT_TRUE(store_->remove_drive(drive_path(1)));
  fs::create_directories(drive_path(1));
  ASSERT_TRUE(store_->add_drive(drive_path(1)));
  EXPECT_EQ(get(*store_, "data", key).error().code(), Code::kNotFound);
}

TEST_F(ReturningDrivesTest, AnAcknowledgedPlainPutIsNotLostBesideAConditionalOne) {
  open(1);
  constexpr int kKeys = 100;
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = "race" + std::to_string(i);
    PutOptions conditional;
    conditional.bucket = "data";
    conditional.key = key;
    conditional.condition.only_if_absent = true;
    ObjectResult second = make_error(Code::kInvalid, "not yet");
    std::thread other([&] { second = put(*store_, conditional, "conditional"); });
    const ObjectResult plain = put(*store_, "data", key, some_bytes(kLarge, 3));
    other.join();
    ASSERT_TRUE(plain);
    // Only one that came first found nothing; so the plain one came last, whatever became of the other.
    ASSERT_EQ(*get(*store_, "data", key), some_bytes(kLarge, 3)) << i;
  }
}

}  // namespace
}  // namespace millrace::store
