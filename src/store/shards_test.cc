// Shard indexes: made while the bytes come, or later; never in the way of the object.
#include "store/shards.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "store/shard_feed.h"
#include "store/testing/store_fixture.h"
#include "store/uploads.h"
#include "tar/compress.h"
#include "tar/index.h"
#include "tar/writer.h"

namespace millrace::store {
namespace {

using namespace testing;  // NOLINT: the fixture's verbs

class StringSink final : public tar::ByteSink {
 public:
  explicit StringSink(std::string& into) : into_(into) {}
  Status write(std::string_view bytes) override {
    into_.append(bytes);
    return {};
  }
  Status finish() override { return {}; }

 private:
  std::string& into_;
};

std::string make_tar(size_t samples, size_t bytes_each,
                     tar::Compression compression = tar::Compression::kNone) {
  std::string out;
  StringSink sink(out);
  auto compressor = tar::make_compressor(compression, sink);
  tar::Writer writer(compression == tar::Compression::kNone ? static_cast<tar::ByteSink&>(sink)
                                                            : **compressor);
  for (size_t i = 0; i < samples; ++i) {
    const std::string bytes = some_bytes(bytes_each, i);
    const std::string name = fmt::format("sample{:06}.jpg", i);
    EXPECT_TRUE(writer.add({name, bytes.size()}, bytes));
  }
  EXPECT_TRUE(writer.finish());
  return out;
}

class ShardsTest : public ::testing::Test, protected StoreFixture {
 protected:
  void expect_index(const std::string& key, size_t samples, uint64_t stored_bytes) {
    const auto object = store_->get_object("data", key);
    ASSERT_TRUE(object);
    const auto bytes = store_->shard_index(*object);
    ASSERT_TRUE(bytes) << bytes.error().message();
    const auto index = tar::Index::parse(**bytes);
    ASSERT_TRUE(index) << index.error().message();
    EXPECT_EQ(index->samples(), samples);
    EXPECT_EQ(index->shard().stored_bytes, stored_bytes);
  }
  ObjectPointer wait_until_indexed(const std::string& key) {
    while (true) {
      const auto object = store_->get_object("data", key);
      if (!object || (*object)->record().shard != ShardState::kPending) return object ? *object : nullptr;
      std::this_thread::yield();
    }
  }
};

TEST_F(ShardsTest, APlainTarIsIndexedWhileItComes) {
  open();
  const std::string shard = make_tar(300, 10'000);
  const auto object = put(*store_, "data", "train.tar", shard);
  ASSERT_TRUE(object);
  EXPECT_EQ((*object)->record().shard, ShardState::kReady);
  EXPECT_EQ((*object)->record().shard_samples, 300u);
  expect_index("train.tar", 300, shard.size());
  open();
  expect_index("train.tar", 300, shard.size());
  EXPECT_EQ(*get(*store_, "data", "train.tar"), shard);
}

TEST_F(ShardsTest, ASmallTarIsIndexedWhenAskedFor) {
  open();
  const std::string shard = make_tar(3, 100);
  ASSERT_LE(shard.size(), kInlineBytes);
  ASSERT_TRUE(put(*store_, "data", "small.tar", shard));
  expect_index("small.tar", 3, shard.size());
  const std::string packed = make_tar(3, 100, tar::Compression::kGzip);
  ASSERT_TRUE(put(*store_, "data", "small.tgz", packed));
  expect_index("small.tgz", 3, packed.size());
}

TEST_F(ShardsTest, ACompressedShardIsIndexedWhileItComes) {
  open();
  for (const auto compression : {tar::Compression::kGzip, tar::Compression::kZstd}) {
    // Its bytes do not compress: the largest is many blocks, more than may be in flight.
    for (const size_t samples : {3u, 50u, 1500u}) {
      const std::string shard = make_tar(samples, samples == 3 ? 100 : 10'000, compression);
      const auto object = put(*store_, "data", "train.tar.zst", shard);
      ASSERT_TRUE(object);
      EXPECT_EQ((*object)->record().shard, ShardState::kReady);
      EXPECT_EQ((*object)->record().shard_samples, samples);
      expect_index("train.tar.zst", samples, shard.size());
      EXPECT_EQ(*get(*store_, "data", "train.tar.zst"), shard);
    }
  }
  open();
  expect_index("train.tar.zst", 1500, store_->get_object("data", "train.tar.zst").take()->record().size);
}

TEST_F(ShardsTest, ManyCompressedShardsAreIndexedAtOnce) {
  open();
  const std::string shard = make_tar(300, 10'000, tar::Compression::kGzip);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] { ASSERT_TRUE(put(*store_, "data", fmt::format("{}.tgz", i), shard)); });
  }
  threads.clear();
  for (int i = 0; i < 8; ++i) expect_index(fmt::format("{}.tgz", i), 300, shard.size());
}

TEST_F(ShardsTest, ShardsInPartsAreIndexedWhenTheyAreWhole) {
  open();
  for (const auto compression : {tar::Compression::kNone, tar::Compression::kGzip}) {
    const std::string key = compression == tar::Compression::kNone ? "parts.tar" : "parts.tgz";
    const std::string shard = make_tar(700, 10'000, compression);
    PutOptions options;
    options.bucket = "data";
    options.key = key;
    const auto upload = store_->create_upload(options);
    ASSERT_TRUE(upload);
    std::vector<CompletePart> parts;
    for (unsigned number = 1; number <= 2; ++number) {
      const std::string bytes = number == 1 ? shard.substr(0, kMinPartBytes) : shard.substr(kMinPartBytes);
      auto writer = store_->put_part({{"data", key, *upload}, number, bytes.size()});
      ASSERT_TRUE(writer);
      ASSERT_TRUE(fill(**writer, bytes));
      parts.push_back({number, (*finish(**writer))->record().etag});
    }
    const auto before = store_->complete_upload({{"data", key, *upload}, parts, {}, {}});
    ASSERT_TRUE(before);
    expect_index(key, 700, shard.size());
    const auto after = wait_until_indexed(key);
    EXPECT_EQ(after->record().shard, ShardState::kReady);
    EXPECT_EQ(after->record().version, (*before)->record().version);
    EXPECT_EQ(after->record().etag, (*before)->record().etag);
    open();
    expect_index(key, 700, shard.size());
    EXPECT_EQ(*get(*store_, "data", key), shard);
  }
}

TEST_F(ShardsTest, WhatIsNoTarStaysAGoodObject) {
  open();
  const std::map<std::string, std::string> bodies = {
      {"bad.tar", some_bytes(100'000, 1)},
      {"bad.tar.gz", some_bytes(100'000, 1)},
      {"few.tgz", "\x1f\x8b"},
      {"cut.tar", make_tar(20, 5000).substr(0, 60'000)},
      {"cut.tgz", make_tar(500, 10'000, tar::Compression::kGzip).substr(0, 3'000'000)}};
  for (const auto& [key, bytes] : bodies) {
    ASSERT_TRUE(put(*store_, "data", key, bytes));
    const auto object = wait_until_indexed(key);
    ASSERT_NE(object, nullptr);
    EXPECT_EQ(object->record().shard, ShardState::kInvalid) << key;
    EXPECT_FALSE(store_->shard_index(object));
    EXPECT_EQ(*get(*store_, "data", key), bytes);
  }
  ASSERT_TRUE(put(*store_, "data", "plain.jpg", some_bytes(100'000, 1)));
  EXPECT_EQ(store_->shard_index(*store_->get_object("data", "plain.jpg")).error().code(), Code::kNotFound);
}

TEST(ShardFeedTest, KnowsShardsByTheirNames) {
  for (const char* name : {"a.tar", "a.tgz", "a.tar.gz", "a.tar.zst", "a.tzst"})
    EXPECT_TRUE(is_shard_name(name)) << name;
  for (const char* name : {"a.jpg", "tar", "a.zst", "a.tar.mri"}) EXPECT_FALSE(is_shard_name(name)) << name;
}

}  // namespace
}  // namespace millrace::store
