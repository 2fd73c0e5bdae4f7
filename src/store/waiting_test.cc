// Reading with waiting: extents of files and buffers, one after the other, compared where asked.
#include "store/waiting.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/testing/store_fixture.h"

namespace millrace::store {
namespace {

using testing::put;
using testing::some_bytes;

class WaitingTest : public ::testing::Test, protected testing::StoreFixture {
 protected:
  // The only object file there is.
  std::string data_file() {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(drive_path(0) + "/data")) {
      if (entry.is_regular_file()) return entry.path();
    }
    return "";
  }
};

// An object that lies nowhere: its bytes come in buffers of a fixed size.
class BufferReader final : public Reader {
 public:
  BufferReader(std::string bytes, uint64_t step) : bytes_(std::move(bytes)), step_(step) {}
  std::optional<Extent> find_ready(uint64_t offset, uint64_t size) override {
    return Extent{nullptr, bytes_, offset, std::min({size, step_, bytes_.size() - offset})};
  }
  void prepare(uint64_t offset, uint64_t size, Done<Extent> done) override {
    done(std::move(*find_ready(offset, size)));
  }

 private:
  const Bytes bytes_;
  const uint64_t step_;
};

ObjectPointer object_of(uint64_t size) {
  Record record;
  record.size = size;
  record.pieces = {{1, size}};
  return std::make_shared<const Object>("data", "key", std::move(record), "");
}

TEST_F(WaitingTest, BuffersAreReadLikeFiles) {
  const std::string bytes = some_bytes(100'000, 1);
  WaitingReader reader(object_of(bytes.size()), std::make_unique<BufferReader>(bytes, 7'001));
  EXPECT_EQ(*reader.read(0, bytes.size()), bytes);
  EXPECT_EQ(*reader.read(7'000, 2), bytes.substr(7'000, 2));
  EXPECT_EQ(*reader.read(99'990, 100), bytes.substr(99'990));
  EXPECT_EQ(*reader.read(50, 10), bytes.substr(50, 10));
}

TEST_F(WaitingTest, ObjectsOfAllSizesComeBackAndEndWhereTheyEnd) {
  open();
  for (const size_t size : {size_t{0}, size_t{1}, kInlineBytes, kInlineBytes + 1, 3 * kBlockBytes + 17}) {
    const std::string bytes = some_bytes(size, size);
    ASSERT_TRUE(put(*store_, "data", "key", bytes));
    WaitingReader reader(store_->objects(), *store_->get_object("data", "key"));
    EXPECT_EQ(*reader.read(0, size + 10), bytes);
    EXPECT_EQ(*reader.read(size, 10), "");
    EXPECT_EQ(reader.read(size + 1, 1).error().code(), Code::kInvalid);
  }
}

TEST_F(WaitingTest, WhatIsStoredAgainIsComparedAlsoWhereTheBucketLeavesItToTheScrubber) {
  open();
  BucketSettings settings;
  settings.verify = Compare::kScrub;
  ASSERT_TRUE(store_->change_bucket("data", settings));
  ASSERT_TRUE(put(*store_, "data", "key", some_bytes(2 * kBlockBytes, 1)));
  const ObjectPointer object = *store_->get_object("data", "key");
  std::fstream(data_file()).seekp(kBlockBytes + 5).put('\0').put('\1').put('\0');
  EXPECT_TRUE(WaitingReader(store_->objects(), object).read(0, 2 * kBlockBytes));
  const auto compared = WaitingReader(store_->objects(), object, Comparing::kAlways).read(0, 2 * kBlockBytes);
  ASSERT_FALSE(compared);
  EXPECT_EQ(compared.error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace millrace::store
