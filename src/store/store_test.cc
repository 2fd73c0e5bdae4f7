// The store from outside: what a PUT, GET, DELETE and LIST promise.
#include "store/objects.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "store/testing/store_fixture.h"

namespace millrace::store {
namespace {

using namespace testing;  // NOLINT: the fixture's verbs

class StoreTest : public ::testing::Test, protected StoreFixture {
 protected:
  size_t data_files(size_t drive = 0) {
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(drive_path(drive) + "/data")) {
      if (entry.is_regular_file()) ++count;
    }
    return count;
  }
  // Of every file that is longer than `least`.
  void flip_byte(uint64_t offset, uint64_t least) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(drive_path(0) + "/data")) {
      if (!entry.is_regular_file() || entry.file_size() < least) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(offset));
      const char byte = static_cast<char>(file.get() ^ 0x40);
      file.seekp(static_cast<std::streamoff>(offset));
      file.put(byte);
    }
  }
  // Removal of files follows the answer.
  void wait_for_files(size_t expected) {
    while (data_files() != expected) std::this_thread::yield();
  }
};

TEST_F(StoreTest, GivesBackWhatWasPut) {
  open();
  for (const size_t size : {size_t{0}, size_t{1}, size_t{kInlineBytes}, size_t{kInlineBytes + 1},
                            size_t{4096 * 5}, size_t{kBlockBytes - 1}, size_t{kBlockBytes},
                            size_t{kBlockBytes + 1}, size_t{20 * kBlockBytes + 12345}}) {
    const std::string bytes = some_bytes(size, size);
    const std::string key = "size/" + std::to_string(size);
    const auto object = put(*store_, "data", key, bytes);
    ASSERT_TRUE(object) << object.error().message();
    EXPECT_EQ((*object)->record().size, size);
    EXPECT_EQ((*object)->is_inline(), size <= kInlineBytes);
    const auto back = get(*store_, "data", key);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(*back, bytes) << size;
  }
}

TEST_F(StoreTest, TakesBodiesOfUnknownLength) {
  open();
  for (const size_t size : {size_t{0}, size_t{100}, size_t{3 * kBlockBytes + 7}}) {
    const std::string bytes = some_bytes(size, 3);
    PutOptions options;
    options.bucket = "data";
    options.key = "unknown";
    ASSERT_TRUE(put(*store_, options, bytes));
    EXPECT_EQ(*get(*store_, "data", "unknown"), bytes);
  }
}

TEST_F(StoreTest, KeepsObjectsBucketsAndHeadersOverARestart) {
  open(2);
  PutOptions options;
  options.bucket = "data";
  options.key = "kept";
  options.headers = {{"content-type", "image/jpeg"}, {"x-amz-meta-a", "b"}};
  options.tags = {{"colour", "blue"}};
  const std::string large = some_bytes(2 * kBlockBytes, 1);
  ASSERT_TRUE(put(*store_, options, large));
  ASSERT_TRUE(put(*store_, "data", "small", "tiny"));
  const std::string node = store_->node_id();
  open(2);
  EXPECT_EQ(store_->node_id(), node);
  EXPECT_EQ(*get(*store_, "data", "kept"), large);
  EXPECT_EQ(*get(*store_, "data", "small"), "tiny");
  const auto object = store_->get_object("data", "kept");
  ASSERT_TRUE(object);
  EXPECT_EQ((*object)->record().headers, options.headers);
  EXPECT_EQ((*object)->record().tags, options.tags);
}

TEST_F(StoreTest, FindsOnlyWhatIsThere) {
  open();
  EXPECT_EQ(get(*store_, "data", "nothing").error().code(), Code::kNotFound);
  EXPECT_EQ(store_->find_object("data", "nothing"), nullptr);
  EXPECT_EQ(put(*store_, "nowhere", "a", "b").error().code(), Code::kNotFound);
  EXPECT_EQ(put(*store_, "data", "", "b").error().code(), Code::kInvalid);
  EXPECT_EQ(put(*store_, "data", std::string(1025, 'k'), "b").error().code(), Code::kInvalid);
  EXPECT_EQ(put(*store_, "data", "bad\xff", "b").error().code(), Code::kInvalid);
  ASSERT_TRUE(put(*store_, "data", "there", "b"));
  const auto found = store_->find_object("data", "there");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->inline_bytes(), "b");
}

TEST_F(StoreTest, OverwritesAndDeletesLeaveNoFiles) {
  open();
  ASSERT_TRUE(put(*store_, "data", "key", some_bytes(100'000, 1)));
  EXPECT_EQ(data_files(), 1u);
  ASSERT_TRUE(put(*store_, "data", "key", some_bytes(100'000, 2)));
  wait_for_files(1);
  EXPECT_EQ(*get(*store_, "data", "key"), some_bytes(100'000, 2));
  ASSERT_TRUE(put(*store_, "data", "key", "small now"));
  wait_for_files(0);
  EXPECT_EQ(*get(*store_, "data", "key"), "small now");
  ASSERT_TRUE(put(*store_, "data", "key", some_bytes(100'000, 3)));
  ASSERT_TRUE(remove(*store_, "data", "key"));
  wait_for_files(0);
  EXPECT_EQ(get(*store_, "data", "key").error().code(), Code::kNotFound);
  EXPECT_TRUE(remove(*store_, "data", "key"));  // nothing to remove is fine
}

TEST_F(StoreTest, AReaderKeepsItsVersionWhenItIsOverwrittenOrDeleted) {
  open();
  const std::string first = some_bytes(3 * kBlockBytes, 1);
  ASSERT_TRUE(put(*store_, "data", "key", first));
  const auto object = store_->get_object("data", "key");  // no file of it is open yet
  ASSERT_TRUE(object);
  ASSERT_TRUE(put(*store_, "data", "key", some_bytes(kBlockBytes, 2)));
  ASSERT_TRUE(remove(*store_, "data", "key"));
  EXPECT_EQ(*store_->read(*object, 0, first.size()), first);
}

TEST_F(StoreTest, ABodyOfTheWrongLengthLeavesTheOldObject) {
  open();
  ASSERT_TRUE(put(*store_, "data", "key", "old"));
  PutOptions options;
  options.bucket = "data";
  options.key = "key";
  options.size = 2 * kBlockBytes;
  {
    auto writer = store_->put(options);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(fill(**writer, some_bytes(kBlockBytes, 1)));
    EXPECT_EQ(finish(**writer).error().code(), Code::kTruncated);
  }
  {
    auto writer = store_->put(options);
    ASSERT_TRUE(writer);
    EXPECT_EQ(fill(**writer, some_bytes(3 * kBlockBytes, 1)).error().code(), Code::kInvalid);
  }
  EXPECT_EQ(*get(*store_, "data", "key"), "old");
  EXPECT_EQ(data_files(), 0u);
}

TEST_F(StoreTest, ConditionsAreJudged) {
  open();
  PutOptions options;
  options.bucket = "data";
  options.key = "key";
  options.condition.only_if_etag = "*";
  EXPECT_EQ(put(*store_, options, "x").error().code(), Code::kNotFound);
  options.condition = {};
  options.condition.only_if_absent = true;
  const auto first = put(*store_, options, "first");
  ASSERT_TRUE(first);
  EXPECT_EQ(put(*store_, options, "second").error().code(), Code::kExists);
  EXPECT_EQ(put(*store_, options, some_bytes(100'000, 1)).error().code(), Code::kExists);
  wait_for_files(0);
  options.condition = {};
  options.condition.only_if_etag = "other";
  EXPECT_EQ(put(*store_, options, "third").error().code(), Code::kExists);
  options.condition.only_if_etag = (*first)->record().etag;
  EXPECT_TRUE(put(*store_, options, "fourth"));
  EXPECT_EQ(*get(*store_, "data", "key"), "fourth");
  Condition condition;
  condition.only_if_etag = "other";
  EXPECT_EQ(remove(*store_, "data", "key", condition).error().code(), Code::kExists);
  condition = {};
  condition.only_if_size = 5;
  EXPECT_EQ(remove(*store_, "data", "key", condition).error().code(), Code::kExists);
  condition.only_if_size = 6;
  condition.only_if_modified_ms = 1000;
  EXPECT_EQ(remove(*store_, "data", "key", condition).error().code(), Code::kExists);
  EXPECT_EQ(*get(*store_, "data", "key"), "fourth");
  condition.only_if_modified_ms = (*store_->get_object("data", "key"))->record().modified_ms;
  EXPECT_TRUE(remove(*store_, "data", "key", condition));
  EXPECT_EQ(remove(*store_, "data", "key", condition).error().code(), Code::kNotFound);
}

TEST_F(StoreTest, OnlyIfAbsentHasExactlyOneWinner) {
  open(2);
  for (const size_t size : {size_t{10}, size_t{50'000}}) {
    std::atomic<int> winners = 0;
    std::atomic<int> losers = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 16; ++i) {
        threads.emplace_back([&, i] {
          PutOptions options;
          options.bucket = "data";
          options.key = "race" + std::to_string(size);
          options.condition.only_if_absent = true;
          const auto result = put(*store_, options, some_bytes(size, static_cast<uint64_t>(i)));
          if (result) ++winners;
          if (!result &&
              (result.error().code() == Code::kExists || result.error().code() == Code::kUnavailable))
            ++losers;
        });
      }
    }
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(losers, 15);
  }
}

TEST_F(StoreTest, ManyWritersOfOneKeyLeaveOneWholeObject) {
  open(2);
  std::set<std::string> allowed;
  std::vector<std::string> bodies;
  for (uint64_t i = 0; i < 8; ++i) {
    bodies.push_back(some_bytes(i % 2 == 0 ? 5000 : 300'000 + i, i));
    allowed.insert(bodies.back());
  }
  std::atomic<bool> stop = false;
  std::jthread reader([&] {
    while (!stop) {
      const auto bytes = get(*store_, "data", "key");
      if (!bytes) {
        EXPECT_EQ(bytes.error().code(), Code::kNotFound) << bytes.error().message();
        continue;
      }
      EXPECT_TRUE(allowed.contains(*bytes));
    }
  });
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        for (int turn = 0; turn < 10; ++turn) EXPECT_TRUE(put(*store_, "data", "key", bodies[i]));
      });
    }
  }
  stop = true;
  reader.join();
  const auto last = get(*store_, "data", "key");
  ASSERT_TRUE(last);
  EXPECT_TRUE(allowed.contains(*last));
  open(2);
  EXPECT_EQ(*get(*store_, "data", "key"), *last);
}

TEST_F(StoreTest, ADestroyedWriterLeavesNoTrace) {
  open();
  PutOptions options;
  options.bucket = "data";
  options.key = "key";
  for (int i = 0; i < 20; ++i) {
    auto writer = store_->put(options);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(fill(**writer, some_bytes(5 * kBlockBytes, 1)));
  }
  EXPECT_EQ(data_files(), 0u);
  EXPECT_EQ(get(*store_, "data", "key").error().code(), Code::kNotFound);
}

TEST_F(StoreTest, TagsAreChangedWithoutTouchingTheRest) {
  open();
  for (const size_t size : {size_t{10}, size_t{100'000}}) {
    const auto before = put(*store_, "data", "key", some_bytes(size, 1));
    ASSERT_TRUE(before);
    for (const char* colour : {"blue", "red"}) {
      const auto after = store_->set_tags("data", "key", {{"colour", colour}});
      ASSERT_TRUE(after) << after.error().message();
      EXPECT_EQ((*after)->record().etag, (*before)->record().etag);
    }
    open();
    const auto object = store_->get_object("data", "key");
    ASSERT_TRUE(object);
    EXPECT_EQ((*object)->record().tags, (std::vector<NameValue>{{"colour", "red"}}));
    EXPECT_EQ(*get(*store_, "data", "key"), some_bytes(size, 1));
  }
  EXPECT_EQ(store_->set_tags("data", "none", {}).error().code(), Code::kNotFound);
}

TEST_F(StoreTest, PreparedStretchesAreTheObjectsBytes) {
  open();
  const std::string bytes = some_bytes(9 * kBlockBytes + 77, 5);
  const auto object = put(*store_, "data", "key", bytes);
  ASSERT_TRUE(object);
  uint64_t offset = 0;
  while (offset < bytes.size()) {
    auto extent = prepare(*store_, *object, offset, bytes.size());
    ASSERT_TRUE(extent) << extent.error().message();
    ASSERT_GT(extent->size, 0u);
    ASSERT_LE(extent->size, StoreOptions().read_window);
    std::string window(extent->size, '\0');
    ASSERT_EQ(
        ::pread(extent->file->descriptor(), window.data(), window.size(), static_cast<off_t>(extent->offset)),
        static_cast<ssize_t>(window.size()));
    EXPECT_EQ(window, bytes.substr(offset, window.size()));
    EXPECT_TRUE(store_->find_ready(*object, offset, extent->size));
    offset += extent->size;
  }
  EXPECT_EQ(prepare(*store_, *object, bytes.size(), 1).error().code(), Code::kInvalid);
  EXPECT_FALSE(store_->find_ready(*object, bytes.size(), 1));
}

// Many readers of one object at once, each with all of its windows, and one byte on the drive that is wrong.
TEST_F(StoreTest, ReadersOfTheSameWindowsAllGetTheBytesOrTheDamage) {
  open();
  constexpr size_t kReaders = 16;
  const std::string bytes = some_bytes(20 * kBlockBytes, 6);
  ASSERT_TRUE(put(*store_, "data", "whole", bytes));
  ASSERT_TRUE(put(*store_, "data", "damaged", bytes));
  open();  // so that nothing was compared
  for (const char* key : {"whole", "damaged"}) {
    const auto object = store_->get_object("data", key);
    ASSERT_TRUE(object);
    if (std::string_view(key) == "damaged") flip_byte(19 * kBlockBytes + 5, bytes.size());
    std::atomic<size_t> right = 0;
    std::atomic<size_t> refused = 0;
    std::vector<std::jthread> readers;
    for (size_t i = 0; i < kReaders; ++i) {
      readers.emplace_back([&] {
        const auto got = store_->read(*object, 0, bytes.size());
        if (got && *got == bytes) ++right;
        if (!got && got.error().code() == Code::kCorrupt) ++refused;
      });
    }
    readers.clear();
    EXPECT_EQ(right, std::string_view(key) == "whole" ? kReaders : 0) << key;
    EXPECT_EQ(right + refused, kReaders) << key;
  }
}

}  // namespace
}  // namespace millrace::store
