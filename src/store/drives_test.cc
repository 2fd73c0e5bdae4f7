// Drives that are locked, foreign, missing, full of litter, damaged, drained and rebuilt.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "store/fsck.h"
#include "store/testing/store_fixture.h"
#include "store/uploads.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;
using namespace testing;  // NOLINT: the fixture's verbs

class DrivesTest : public ::testing::Test, protected StoreFixture {
 protected:
  std::vector<std::string> data_files(size_t drive) {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(drive_path(drive) + "/data")) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    return files;
  }
  void flip_byte(const std::string& path, uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  DriveStatus drive(size_t number) {
    for (const DriveStatus& status : store_->drives()) {
      if (status.path == drive_path(number)) return status;
    }
    ADD_FAILURE() << "no drive " << number;
    return {};
  }
  void put_many(int count, size_t size) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(
          put(*store_, "data", "key" + std::to_string(i), some_bytes(size, static_cast<uint64_t>(i))));
    }
  }
  void expect_many(int count, size_t size) {
    for (int i = 0; i < count; ++i) {
      const auto bytes = get(*store_, "data", "key" + std::to_string(i));
      ASSERT_TRUE(bytes) << i << ": " << bytes.error().message();
      EXPECT_EQ(*bytes, some_bytes(size, static_cast<uint64_t>(i)));
    }
  }
  void scrub() {
    const uint64_t before = store_->scrub_status().cycles;
    store_->scrub_now();
    while (store_->scrub_status().cycles == before) std::this_thread::yield();
  }
  Result<std::unique_ptr<WaitingStore>> try_open(const StoreOptions& options) {
    return WaitingStore::open(options, log_);
  }
};

TEST_F(DrivesTest, ADriveInUseOrOfAnotherNodeIsRefused) {
  open();
  StoreOptions other = options(1);
  EXPECT_EQ(try_open(other).error().code(), Code::kUnavailable);  // the same state directory
  other.state_directory = directory_.path("state2");
  EXPECT_EQ(try_open(other).error().code(), Code::kUnavailable);
  const std::string node = store_->node_id();
  store_.reset();
  const auto refused = try_open(other);
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_NE(refused.error().message().find(node), std::string::npos);
  other = options(2);
  other.drives[1] = drive_path(0) + "/.";
  EXPECT_EQ(try_open(other).error().code(), Code::kInvalid);
  std::ofstream(directory_.path("file")) << "x";
  other.drives[1] = directory_.path("file");
  EXPECT_EQ(try_open(other).error().code(), Code::kInvalid);
}

TEST_F(DrivesTest, AKnownDriveMayBeSpelledInAnyWay) {
  open(2);
  put_many(20, 100);
  store_.reset();
  StoreOptions other = options(2);
  other.drives = {drive_path(1) + "/", drive_path(0) + "/../" + fs::path(drive_path(0)).filename().string()};
  open(other);
  EXPECT_EQ(store_->drives().size(), 2U);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(get(*store_, "data", "key" + std::to_string(i)));
  EXPECT_TRUE(store_->drain_drive(drive_path(1) + "/"));
}

TEST_F(DrivesTest, DrivesThatChangedPlacesAreKnownByWhatTheyAre) {
  open(2);
  put_many(20, 100);
  store_.reset();
  fs::rename(drive_path(0), directory_.path("aside"));
  fs::rename(drive_path(1), drive_path(0));
  fs::rename(directory_.path("aside"), drive_path(1));
  open(2);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(get(*store_, "data", "key" + std::to_string(i)));
}

TEST_F(DrivesTest, ADriveInsideAnotherIsRefused) {
  open();
  EXPECT_EQ(store_->add_drive(drive_path(0) + "/data/00").error().code(), Code::kInvalid);
  EXPECT_EQ(store_->add_drive(fs::path(drive_path(0)).parent_path().string()).error().code(), Code::kInvalid);
}

TEST_F(DrivesTest, AKnownDriveWhoseIndexAndObjectsAreGoneIsMissing) {
  open(2);
  put_many(20, 100);
  store_.reset();
  fs::remove_all(drive_path(1) + "/data");
  fs::remove_all(drive_path(1) + "/index");
  open(2);
  EXPECT_EQ(drive(1).state, DriveState::kMissing);
  EXPECT_NE(drive(1).reason.find("fsck --rebuild"), std::string::npos);
}

TEST_F(DrivesTest, BucketsAreNotedOnADriveThatWasAwayWhenTheyWereMade) {
  open(2);
  store_.reset();
  fs::rename(drive_path(1), directory_.path("away"));
  open(1);
  ASSERT_TRUE(store_->create_bucket("fresh", {}));
  store_.reset();
  fs::rename(directory_.path("away"), drive_path(1));
  open(2);
  ASSERT_TRUE(store_->drain_drive(drive_path(0)));
  store_.reset();
  fs::rename(drive_path(0), directory_.path("gone"));
  open(2);
  EXPECT_NE(store_->find_bucket("fresh"), nullptr);
}

TEST_F(DrivesTest, ADrainIsRememberedWhereverTheDriveGoesAndEndsWhenItIsAddedAgain) {
  open(2);
  ASSERT_TRUE(store_->drain_drive(drive_path(1)));
  store_.reset();
  fs::rename(drive_path(1), directory_.path("moved"));
  StoreOptions other = options(1);
  other.drives.push_back(directory_.path("moved"));
  open(other);
  const auto state = [&] {
    for (const DriveStatus& one : store_->drives())
      if (one.path == directory_.path("moved")) return one.state;
    return DriveState::kMissing;
  };
  EXPECT_EQ(state(), DriveState::kDraining);
  ASSERT_TRUE(store_->add_drive(directory_.path("moved")));
  EXPECT_EQ(state(), DriveState::kServing);
}

TEST_F(DrivesTest, AMissingDriveIsReportedAndNeverMadeAnew) {
  open(2);
  put_many(40, 100);
  store_.reset();
  fs::rename(drive_path(1), directory_.path("away"));
  fs::create_directory(drive_path(1));  // the empty mount point
  open(2);
  EXPECT_EQ(drive(1).state, DriveState::kMissing);
  EXPECT_FALSE(drive(1).reason.empty());
  EXPECT_TRUE(fs::is_empty(drive_path(1)));
  int found = 0;
  for (int i = 0; i < 40; ++i) {
    const auto bytes = get(*store_, "data", "key" + std::to_string(i));
    found += bytes ? 1 : 0;
    if (!bytes) EXPECT_EQ(bytes.error().code(), Code::kUnavailable) << bytes.error().message();
  }
  EXPECT_EQ(store_->list("data", {}).error().code(), Code::kUnavailable);
  EXPECT_GT(found, 0);
  EXPECT_LT(found, 40);
  EXPECT_EQ(store_->remove_bucket("data").error().code(), Code::kUnavailable);
  store_.reset();
  fs::remove(drive_path(1));
  fs::rename(directory_.path("away"), drive_path(1));
  open(2);
  expect_many(40, 100);
}

TEST_F(DrivesTest, ADriveThatIsThereFromAStartOnKnowsTheBucketsWithoutTheOthers) {
  open(1);
  ASSERT_TRUE(store_->change_bucket("data", {.anonymous_read = true}));
  open(2);
  store_.reset();
  fs::rename(drive_path(0), directory_.path("away"));
  open(2);
  const auto bucket = store_->find_bucket("data");
  ASSERT_NE(bucket, nullptr);
  EXPECT_TRUE(bucket->settings.anonymous_read);
}

TEST_F(DrivesTest, WhatWasDeletedOrOverwrittenWhileADriveWasAwayStaysSo) {
  open(2);
  put_many(40, 100);
  store_.reset();
  fs::rename(drive_path(1), directory_.path("away"));
  open(2);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(remove(*store_, "data", "key" + std::to_string(i)));
  for (int i = 20; i < 40; ++i) ASSERT_TRUE(put(*store_, "data", "key" + std::to_string(i), "new"));
  fs::rename(directory_.path("away"), drive_path(1));
  ASSERT_TRUE(store_->add_drive(drive_path(1)));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(store_->list("data", {})->entries.size(), 20u);
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(get(*store_, "data", "key" + std::to_string(i)).error().code(), Code::kNotFound);
    for (int i = 20; i < 40; ++i) EXPECT_EQ(*get(*store_, "data", "key" + std::to_string(i)), "new");
    // Deleting what has an older record on the other drive leaves neither.
    if (round == 0) {
      ASSERT_TRUE(remove(*store_, "data", "key39"));
      ASSERT_TRUE(put(*store_, "data", "key39", "new"));
    }
    open(2);
  }
}

TEST_F(DrivesTest, ObjectsLeaveADrainingDriveWithoutBeingMissedForAMoment) {
  open(2);
  put_many(20, 100);
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(put(*store_, "data", "large" + std::to_string(i), some_bytes(2'500'000, 7)));
  ASSERT_TRUE(store_->set_tags("data", "large3", {{"a", "b"}}));
  EXPECT_EQ(store_->remove_drive(drive_path(0)).error().code(), Code::kExists);
  ASSERT_TRUE(store_->drain_drive(drive_path(0)));
  EXPECT_EQ(drive(0).state, DriveState::kDraining);
  Status removed = store_->remove_drive(drive_path(0));
  while (!removed) {
    ASSERT_EQ(removed.error().code(), Code::kExists) << removed.error().message();
    expect_many(20, 100);
    EXPECT_EQ(get(*store_, "data", "large3")->size(), 2'500'000u);
    removed = store_->remove_drive(drive_path(0));
  }
  expect_many(20, 100);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(*get(*store_, "data", "large" + std::to_string(i)), some_bytes(2'500'000, 7));
  StoreOptions rest = options(0);
  rest.drives = {drive_path(1)};
  open(rest);
  EXPECT_EQ(store_->drives().size(), 1u);
  expect_many(20, 100);
  EXPECT_EQ((*store_->get_object("data", "large3"))->record().tags.size(), 1u);
  EXPECT_EQ(store_->remove_drive(drive_path(1)).error().code(), Code::kExists);
  EXPECT_EQ(store_->drain_drive("/nowhere").error().code(), Code::kNotFound);
}

TEST_F(DrivesTest, AnAddedDriveTakesNewObjectsAndTheOldStay) {
  open(1);
  put_many(20, 20'000);
  ASSERT_TRUE(store_->add_drive(drive_path(1)));
  EXPECT_FALSE(store_->add_drive(drive_path(1)));
  for (int i = 20; i < 60; ++i) {
    ASSERT_TRUE(
        put(*store_, "data", "key" + std::to_string(i), some_bytes(20'000, static_cast<uint64_t>(i))));
  }
  EXPECT_GT(data_files(1).size(), 5u);
  expect_many(60, 20'000);
  open(2);
  expect_many(60, 20'000);
  EXPECT_EQ(store_->list("data", {})->entries.size(), 60u);
}

TEST_F(DrivesTest, ScrubbingGoesOnWhereTheLastRunStopped) {
  StoreOptions slow = options(1);
  slow.scrub_bytes_per_second = 20 << 20;
  slow.scrub_cycle_seconds = 1;
  open(slow);
  put_many(40, kBlockBytes);
  while (store_->scrub_status().objects_done < 5) std::this_thread::yield();
  const uint64_t before = store_->scrub_status().objects_done;
  slow.scrub_bytes_per_second = uint64_t{1} << 40;
  slow.scrub_cycle_seconds = 1'000'000;
  open(slow);
  while (store_->scrub_status().cycles == 0) std::this_thread::yield();
  EXPECT_LE(store_->scrub_status().objects_done, 40 - before);
  EXPECT_GT(store_->scrub_status().objects_done, 0u);
  EXPECT_FALSE(store_->scrub_status().running);
  // On request everything is looked at.
  scrub();
  EXPECT_EQ(store_->scrub_status().objects_done, 40u);
}

TEST_F(DrivesTest, AFlippedBitIsFoundByReadingAndByScrubbing) {
  open(1);
  const std::string bytes = some_bytes(3 * kBlockBytes + 100, 1);
  ASSERT_TRUE(put(*store_, "data", "good", bytes));
  ASSERT_TRUE(put(*store_, "data", "inline", "tiny"));
  const std::set<std::string> before = [&] {
    const auto files = data_files(0);
    return std::set<std::string>(files.begin(), files.end());
  }();
  ASSERT_TRUE(put(*store_, "data", "bad", bytes));
  scrub();
  EXPECT_EQ(store_->scrub_status().damaged, 0u);
  EXPECT_GT(store_->scrub_status().bytes_done, 6 * kBlockBytes);
  for (const std::string& file : data_files(0)) {
    if (!before.contains(file)) flip_byte(file, 2 * kBlockBytes + 5);
  }
  scrub();
  const ScrubStatus status = store_->scrub_status();
  ASSERT_EQ(status.found.size(), 1u);
  EXPECT_EQ(status.found[0].key, "bad");
  EXPECT_EQ(status.found[0].block, 2u);
  BucketSettings settings;
  settings.verify = Compare::kRead;
  ASSERT_TRUE(store_->change_bucket("data", settings));
  const auto bad = store_->get_object("data", "bad");
  ASSERT_TRUE(bad);
  EXPECT_TRUE(prepare(*store_, *bad, 0, kBlockBytes));
  const auto refused = prepare(*store_, *bad, 2 * kBlockBytes, 10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kCorrupt);
  EXPECT_NE(refused.error().message().find("data/bad"), std::string::npos);
  EXPECT_EQ(store_->read(*bad, 0, bytes.size()).error().code(), Code::kCorrupt);
  EXPECT_EQ(*get(*store_, "data", "good"), bytes);
}

TEST_F(DrivesTest, EveryBlockIsComparedWhenItIsFirstReadAndWhenItsFileWasWritten) {
  open(1);
  const std::string bytes = some_bytes(2 * kBlockBytes + 100, 1);
  ASSERT_TRUE(put(*store_, "data", "fresh", bytes));
  flip_byte(data_files(0).front(), kBlockBytes + 5);
  auto object = *store_->get_object("data", "fresh");
  EXPECT_FALSE(store_->find_ready(object, 0, bytes.size()));
  EXPECT_EQ(prepare(*store_, object, 0, bytes.size()).error().code(), Code::kCorrupt);
  EXPECT_EQ(get(*store_, "data", "fresh").error().code(), Code::kCorrupt);
  EXPECT_TRUE(prepare(*store_, object, 0, kBlockBytes));

  // What was compared before is compared again when the file was written.
  flip_byte(data_files(0).front(), kBlockBytes + 5);
  object = *store_->get_object("data", "fresh");
  ASSERT_TRUE(prepare(*store_, object, 0, bytes.size()));
  EXPECT_TRUE(store_->find_ready(object, kBlockBytes, 10));
  flip_byte(data_files(0).front(), kBlockBytes + 5);
  EXPECT_EQ(get(*store_, "data", "fresh").error().code(), Code::kCorrupt);
  EXPECT_EQ(prepare(*store_, object, 0, bytes.size()).error().code(), Code::kCorrupt);
  // One place, however often it was met.
  EXPECT_EQ(store_->scrub_status().damaged, 1u);
  scrub();
  EXPECT_EQ(store_->scrub_status().damaged, 1u);
  EXPECT_GT(store_->scrub_status().bytes_total, bytes.size());
  EXPECT_LT(store_->scrub_status().bytes_total, 2 * bytes.size());
  EXPECT_EQ(get(*store_, "data", "fresh").error().code(), Code::kCorrupt);

  // What left the memory is compared when it comes back, though the file seems not to have been written.
  flip_byte(data_files(0).front(), kBlockBytes + 5);
  object = *store_->get_object("data", "fresh");
  ASSERT_TRUE(prepare(*store_, object, 0, bytes.size()));
  const auto written = fs::last_write_time(data_files(0).front());
  flip_byte(data_files(0).front(), kBlockBytes + 5);
  fs::last_write_time(data_files(0).front(), written);
  const int descriptor = ::open(data_files(0).front().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::fsync(descriptor), 0);
  ASSERT_EQ(::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
  ::close(descriptor);
  EXPECT_EQ(prepare(*store_, object, 0, bytes.size()).error().code(), Code::kCorrupt);

  BucketSettings lazy;
  lazy.verify = Compare::kScrub;
  ASSERT_TRUE(store_->change_bucket("data", lazy));
  EXPECT_TRUE(get(*store_, "data", "fresh"));
}

TEST_F(DrivesTest, ACutOrMissingFileIsDamageNotACrash) {
  open(1);
  ASSERT_TRUE(put(*store_, "data", "cut", some_bytes(100'000, 1)));
  const std::string cut = data_files(0).front();
  fs::resize_file(cut, 50'000);
  scrub();
  EXPECT_EQ(store_->scrub_status().damaged, 1u);
  fs::remove(cut);
  open(1);
  EXPECT_EQ(get(*store_, "data", "cut").error().code(), Code::kCorrupt);
  EXPECT_EQ(prepare(*store_, *store_->get_object("data", "cut"), 0, 1).error().code(), Code::kCorrupt);
  EXPECT_TRUE(remove(*store_, "data", "cut"));
}

TEST_F(DrivesTest, LitterOfAnUncleanStopIsSweptAndNothingElse) {
  open(1);
  ASSERT_TRUE(put(*store_, "data", "kept", some_bytes(100'000, 1)));
  const std::string kept = data_files(0).front();
  // A kill in this process: the child takes over the drives, and dies without closing.
  store_.reset();
  const pid_t child = ::fork();
  if (child == 0) {
    auto opened = WaitingStore::open(options(1), log_);
    if (opened) put(**opened, "data", "child", some_bytes(50'000, 2)).has_value();
    ::_exit(opened ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const std::string litter = drive_path(0) + "/data/07/0000000000000007";
  std::ofstream(litter) << "left over";
  std::ofstream(drive_path(0) + "/tmp/half") << "left over";
  open(1);
  while (fs::exists(litter)) std::this_thread::yield();
  EXPECT_FALSE(fs::exists(drive_path(0) + "/tmp/half"));
  EXPECT_TRUE(fs::exists(kept));
  EXPECT_EQ(*get(*store_, "data", "kept"), some_bytes(100'000, 1));
  EXPECT_EQ(*get(*store_, "data", "child"), some_bytes(50'000, 2));
}

TEST_F(DrivesTest, FsckFindsOrphansMissingFilesAndBadBlocks) {
  open(1);
  put_many(5, 100'000);
  ASSERT_TRUE(put(*store_, "data", "tiny", "tiny"));
  EXPECT_EQ(fsck(drive_path(0), {}).error().code(), Code::kUnavailable);
  store_.reset();
  const auto clean = fsck(drive_path(0), {.rebuild = false, .deep = true});
  ASSERT_TRUE(clean) << clean.error().message();
  EXPECT_TRUE(clean->is_clean());
  EXPECT_EQ(clean->objects, 6u);
  EXPECT_EQ(clean->inline_objects, 1u);
  const auto files = data_files(0);
  flip_byte(files[0], 17);
  fs::remove(files[1]);
  std::ofstream(drive_path(0) + "/data/07/0000000000000007") << "orphan";
  const auto shallow = fsck(drive_path(0), {});
  ASSERT_TRUE(shallow);
  EXPECT_EQ(shallow->damages.size(), 1u);
  EXPECT_EQ(shallow->orphans.size(), 1u);
  const auto deep = fsck(drive_path(0), {.rebuild = false, .deep = true});
  ASSERT_TRUE(deep);
  EXPECT_EQ(deep->damages.size(), 2u);
  EXPECT_EQ(fsck(directory_.path("nothing"), {}).error().code(), Code::kNotFound);
}

TEST_F(DrivesTest, ALostIndexIsRebuiltFromTheFiles) {
  open(1);
  put_many(10, 100'000);
  ASSERT_TRUE(put(*store_, "data", "key3", some_bytes(100'000, 3)));  // a newer version of the same
  ASSERT_TRUE(put(*store_, "data", "tiny", "tiny"));
  ASSERT_TRUE(store_->set_tags("data", "key4", {{"a", "b"}}));
  PutOptions options;
  options.bucket = "data";
  options.key = "big";
  options.headers = {{"content-type", "video/mp4"}};
  std::vector<CompletePart> parts;
  const auto upload = store_->create_upload(options);
  const auto unfinished = store_->create_upload(options);
  ASSERT_TRUE(upload);
  ASSERT_TRUE(unfinished);
  for (const std::string& id : {*upload, *upload, *unfinished}) {
    const unsigned number = static_cast<unsigned>(parts.size() + 1);
    auto writer = store_->put_part({{"data", "big", id}, number, kMinPartBytes});
    ASSERT_TRUE(writer);
    ASSERT_TRUE(fill(**writer, some_bytes(kMinPartBytes, number)));
    parts.push_back({number, (*finish(**writer))->record().etag});
  }
  parts.pop_back();
  ASSERT_TRUE(store_->complete_upload({{"data", "big", *upload}, parts, {}, {}}));
  store_.reset();
  fs::remove_all(drive_path(0) + "/index");
  const auto refused = fsck(drive_path(0), {});
  EXPECT_EQ(refused.error().code(), Code::kCorrupt);
  EXPECT_FALSE(refused.error().hint().empty());
  const auto report = fsck(drive_path(0), {.rebuild = true, .deep = true});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->index_rebuilt);
  EXPECT_EQ(report->restored_objects, 11u);
  EXPECT_EQ(report->restored_uploads, 1u);
  EXPECT_EQ(report->lost.size(), 1u);
  EXPECT_TRUE(report->damages.empty());
  open(1);
  expect_many(10, 100'000);
  EXPECT_EQ(*get(*store_, "data", "big"), some_bytes(kMinPartBytes, 1) + some_bytes(kMinPartBytes, 2));
  EXPECT_EQ((*store_->get_object("data", "key4"))->record().tags.size(), 1u);
  EXPECT_EQ((*store_->get_object("data", "big"))->record().headers.size(), 1u);
  EXPECT_EQ(store_->parts({"data", "big", *unfinished})->size(), 1u);
  EXPECT_EQ(get(*store_, "data", "tiny").error().code(), Code::kNotFound);
  ASSERT_TRUE(put(*store_, "data", "key0", "after"));  // the clock is beyond all that was restored
  EXPECT_EQ(*get(*store_, "data", "key0"), "after");
}

TEST_F(DrivesTest, ADamagedIndexIsPutAside) {
  open(1);
  put_many(3, 100'000);
  store_.reset();
  for (const auto& entry : fs::directory_iterator(drive_path(0) + "/index")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("MANIFEST") || name == "CURRENT")
      std::ofstream(entry.path(), std::ios::trunc) << "garbage";
    if (name.ends_with(".sst")) fs::resize_file(entry.path(), 10);
  }
  EXPECT_FALSE(fsck(drive_path(0), {}));
  const auto unserved = try_open(options(1));
  EXPECT_EQ(unserved.error().code(), Code::kUnavailable);
  const auto report = fsck(drive_path(0), {.rebuild = true, .deep = false});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->index_rebuilt || report->index_repaired);
  EXPECT_EQ(report->restored_objects, 3u);
  open(1);
  expect_many(3, 100'000);
}

TEST_F(DrivesTest, AFullDriveTakesNothingNewButDeletes) {
  StoreOptions full = options(1);
  open(full);
  ASSERT_TRUE(put(*store_, "data", "old", some_bytes(100'000, 1)));
  PutOptions huge;
  huge.bucket = "data";
  huge.key = "huge";
  huge.size = uint64_t{4} << 40;
  const auto refused = store_->put(huge);
  EXPECT_EQ(refused.error().code(), Code::kNoSpace);
  EXPECT_EQ(*get(*store_, "data", "old"), some_bytes(100'000, 1));
  EXPECT_TRUE(remove(*store_, "data", "old"));
}

TEST_F(DrivesTest, BufferedWritesAreAsGood) {
  StoreOptions buffered = options(1);
  buffered.direct_io = false;
  open(buffered);
  put_many(3, 3 * kBlockBytes + 17);
  open(1);
  expect_many(3, 3 * kBlockBytes + 17);
}

TEST_F(DrivesTest, ClassOsKeepsObjectsOverARestartToo) {
  open(1);
  BucketSettings settings;
  settings.durability = Durability::kOs;
  ASSERT_TRUE(store_->change_bucket("data", settings));
  put_many(3, 100'000);
  ASSERT_TRUE(put(*store_, "data", "tiny", "tiny"));
  open(1);
  EXPECT_EQ(store_->find_bucket("data")->settings, settings);
  expect_many(3, 100'000);
  EXPECT_EQ(*get(*store_, "data", "tiny"), "tiny");
}

}  // namespace
}  // namespace millrace::store
