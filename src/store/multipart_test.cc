// Multipart uploads and listing, from outside.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <thread>

#include "store/reasons.h"
#include "store/testing/store_fixture.h"
#include "store/uploads.h"

namespace millrace::store {
namespace {

using namespace testing;  // NOLINT: the fixture's verbs

class MultipartTest : public ::testing::Test, protected StoreFixture {
 protected:
  std::string begin(const std::string& key) {
    PutOptions options;
    options.bucket = "data";
    options.key = key;
    options.headers = {{"content-type", "video/mp4"}};
    auto upload = store_->create_upload(options);
    EXPECT_TRUE(upload);
    return upload ? *upload : "";
  }
  CompletePart part(const std::string& key, const std::string& upload, unsigned number,
                    const std::string& bytes) {
    auto writer = store_->put_part({{"data", key, upload}, number, bytes.size()});
    EXPECT_TRUE(writer) << writer.error().message();
    EXPECT_TRUE(fill(**writer, bytes));
    const auto object = finish(**writer);
    EXPECT_TRUE(object) << object.error().message();
    return {number, object ? (*object)->record().etag : ""};
  }
  size_t data_files() {
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(drive_path(0) + "/data")) {
      if (entry.is_regular_file()) ++count;
    }
    return count;
  }
  void wait_for_files(size_t expected) {
    while (data_files() != expected) std::this_thread::yield();
  }
};

TEST_F(MultipartTest, PartsBecomeOneObject) {
  open();
  const std::string upload = begin("big");
  std::vector<CompletePart> parts;
  std::string whole;
  for (const unsigned number : {3u, 1u, 2u}) {
    parts.push_back(part("big", upload, number, some_bytes(kMinPartBytes + number, number)));
  }
  std::ranges::sort(parts, {}, &CompletePart::number);
  for (unsigned number = 1; number <= 3; ++number) whole += some_bytes(kMinPartBytes + number, number);
  EXPECT_EQ(get(*store_, "data", "big").error().code(), Code::kNotFound);
  EXPECT_EQ(store_->parts({"data", "big", upload})->size(), 3u);
  EXPECT_EQ(store_->uploads("data")->size(), 1u);
  open();  // an upload survives a restart
  const auto object = store_->complete_upload({{"data", "big", upload}, parts, {}, {}});
  ASSERT_TRUE(object) << object.error().message();
  EXPECT_TRUE((*object)->record().etag.ends_with("-3"));
  EXPECT_EQ(*get(*store_, "data", "big"), whole);
  EXPECT_EQ((*object)->record().headers.size(), 1u);
  EXPECT_TRUE(store_->uploads("data")->empty());
  EXPECT_EQ(store_->complete_upload({{"data", "big", upload}, parts, {}, {}}).error().code(),
            Code::kNotFound);
  open();
  EXPECT_EQ(*get(*store_, "data", "big"), whole);
  const auto middle = store_->get_object("data", "big");
  ASSERT_TRUE(middle);
  EXPECT_EQ(*store_->read(*middle, kMinPartBytes - 10, 30), whole.substr(kMinPartBytes - 10, 30));
  ASSERT_TRUE(remove(*store_, "data", "big"));
}

TEST_F(MultipartTest, ReadingAheadGoesOnIntoTheNextPart) {
  open();
  const std::string upload = begin("big");
  std::vector<CompletePart> parts;
  for (const unsigned number : {1u, 2u, 3u})
    parts.push_back(part("big", upload, number, some_bytes(kMinPartBytes, number)));
  ASSERT_TRUE(store_->complete_upload({{"data", "big", upload}, parts, {}, {}}));
  open();  // no file is open
  const auto object = store_->get_object("data", "big");
  ASSERT_TRUE(object);
  EXPECT_FALSE(store_->find_ready(*object, kMinPartBytes, 1));
  ASSERT_TRUE(prepare(*store_, *object, 0, 3 * kMinPartBytes));
  // Nobody asks for these: the drive's reader opens their files and brings them.
  while (!store_->find_ready(*object, kMinPartBytes, 1)) std::this_thread::yield();
  while (!store_->find_ready(*object, 2 * kMinPartBytes, 1)) std::this_thread::yield();
}

TEST_F(MultipartTest, WrongListsAreRefusedByName) {
  open();
  const std::string upload = begin("key");
  const CompletePart one = part("key", upload, 1, some_bytes(kMinPartBytes, 1));
  const CompletePart two = part("key", upload, 2, some_bytes(100, 2));
  const CompletePart three = part("key", upload, 3, some_bytes(100, 3));
  const auto complete = [&](std::vector<CompletePart> parts) {
    const auto result = store_->complete_upload({{"data", "key", upload}, std::move(parts), {}, {}});
    return result ? nullptr : result.error().reason();
  };
  EXPECT_TRUE(complete({}) == &kNoSuchPart);
  EXPECT_TRUE(complete({two, one}) == &kPartsOutOfOrder);
  EXPECT_TRUE(complete({one, {9, one.etag}}) == &kNoSuchPart);
  EXPECT_TRUE(complete({{1, "wrong"}}) == &kNoSuchPart);
  EXPECT_TRUE(complete({two, three}) == &kPartTooSmall);
  EXPECT_EQ(complete({one, two}), nullptr);
  const auto unknown = store_->complete_upload({{"data", "key", "no-such"}, {one}, {}, {}});
  EXPECT_EQ(unknown.error().code(), Code::kNotFound);
  EXPECT_TRUE(unknown.error().is(kNoSuchUpload));
  EXPECT_EQ(store_->put_part({{"data", "key", "no-such"}, 1, 1}).error().code(), Code::kNotFound);
  wait_for_files(3);  // two parts and the head; the third is gone
}

TEST_F(MultipartTest, APartIsReplacedAndAnAbortLeavesNothing) {
  open();
  const std::string upload = begin("key");
  part("key", upload, 1, some_bytes(1000, 1));
  const CompletePart again = part("key", upload, 1, some_bytes(2000, 2));
  wait_for_files(1);
  const auto parts = store_->parts({"data", "key", upload});
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 1u);
  EXPECT_EQ(parts->front().etag, again.etag);
  ASSERT_TRUE(store_->abort_upload({"data", "key", upload}));
  wait_for_files(0);
  EXPECT_EQ(store_->abort_upload({"data", "key", upload}).error().code(), Code::kNotFound);
  EXPECT_EQ(store_->put_part({{"data", "key", upload}, 1, 1}).error().code(), Code::kNotFound);
  EXPECT_TRUE(store_->remove_bucket("data"));
  EXPECT_EQ(put(*store_, "data", "a", "b").error().code(), Code::kNotFound);
}

TEST_F(MultipartTest, UploadsUnderWayEndWithTheirBucket) {
  open();
  const std::string upload = begin("key");
  const CompletePart one = part("key", upload, 1, some_bytes(1000, 1));
  ASSERT_TRUE(store_->remove_bucket("data"));
  wait_for_files(0);
  EXPECT_FALSE(store_->complete_upload({{"data", "key", upload}, {one}, {}, {}}));
  ASSERT_TRUE(store_->create_bucket("data", {}));
  EXPECT_TRUE(store_->uploads("data")->empty());
}

TEST_F(MultipartTest, APartThatFinishesAfterTheAbortIsRefused) {
  open();
  const std::string upload = begin("key");
  auto writer = store_->put_part({{"data", "key", upload}, 1, 1000});
  ASSERT_TRUE(writer);
  ASSERT_TRUE(fill(**writer, some_bytes(1000, 1)));
  ASSERT_TRUE(store_->abort_upload({"data", "key", upload}));
  EXPECT_EQ(finish(**writer).error().code(), Code::kNotFound);
  wait_for_files(0);
}

class ListTest : public ::testing::Test, protected StoreFixture {
 protected:
  static ListOptions listing(const char* prefix, const char* delimiter, const char* after) {
    ListOptions options;
    options.prefix = prefix;
    options.delimiter = delimiter;
    options.after = after;
    return options;
  }
  std::vector<std::string> keys(const ListOptions& options) {
    auto page = store_->list("data", options);
    EXPECT_TRUE(page);
    std::vector<std::string> found;
    if (page) {
      for (const ListEntry& entry : page->entries) found.push_back(entry.key + (entry.is_prefix ? "*" : ""));
    }
    return found;
  }
};

TEST_F(ListTest, MergesDrivesInOrderWithPrefixAndDelimiter) {
  open(3);
  for (const char* key : {"a", "b/1", "b/2", "b/c/3", "b0", "c", "c/", "d/x"})
    ASSERT_TRUE(put(*store_, "data", key, key));
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys({}), (Keys{"a", "b/1", "b/2", "b/c/3", "b0", "c", "c/", "d/x"}));
  EXPECT_EQ(keys(listing("", "/", "")), (Keys{"a", "b/*", "b0", "c", "c/*", "d/*"}));
  EXPECT_EQ(keys(listing("b/", "/", "")), (Keys{"b/1", "b/2", "b/c/*"}));
  EXPECT_EQ(keys(listing("b", "", "")), (Keys{"b/1", "b/2", "b/c/3", "b0"}));
  EXPECT_EQ(keys(listing("", "/", "b/")), (Keys{"b0", "c", "c/*", "d/*"}));
  EXPECT_EQ(keys(listing("", "", "b/2")), (Keys{"b/c/3", "b0", "c", "c/", "d/x"}));
  EXPECT_EQ(keys(listing("zzz", "", "")), Keys{});
  EXPECT_EQ(keys(listing("b/", "", "z")), Keys{});
  EXPECT_EQ(store_->list("nowhere", {}).error().code(), Code::kNotFound);
}

TEST_F(ListTest, PagesJoinToTheWhole) {
  open(2);
  std::set<std::string> expected;
  for (int i = 0; i < 57; ++i) {
    const std::string key = "k" + std::to_string(i * 7919 % 100);
    expected.insert(key);
    ASSERT_TRUE(put(*store_, "data", key, key));
  }
  std::vector<std::string> found;
  ListOptions options;
  options.limit = 10;
  while (true) {
    const auto page = store_->list("data", options);
    ASSERT_TRUE(page);
    for (const ListEntry& entry : page->entries) found.push_back(entry.key);
    if (!page->truncated) break;
    ASSERT_EQ(page->entries.size(), 10u);
    options.after = found.back();
  }
  EXPECT_EQ(found, std::vector<std::string>(expected.begin(), expected.end()));
}

TEST_F(ListTest, ABucketDoesNotShowAnothersObjects) {
  open();
  ASSERT_TRUE(store_->create_bucket("data2", {}));
  ASSERT_TRUE(put(*store_, "data2", "x", "y"));
  EXPECT_TRUE(keys({}).empty());
  ASSERT_TRUE(store_->remove_bucket("data"));
  EXPECT_EQ(store_->remove_bucket("data2").error().code(), Code::kExists);
  EXPECT_EQ(store_->create_bucket("data2", {}).error().code(), Code::kExists);
  EXPECT_EQ(store_->change_bucket("data", {}).error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace millrace::store
