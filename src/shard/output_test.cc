// Shards appear whole with an index that is the one a reader would make, or not at all.
#include "shard/output.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/testing/temporary_directory.h"
#include "shard/index_file.h"
#include "shard/writer.h"

namespace millrace::shard {
namespace {

using Texts = std::vector<std::string>;

Status add_samples(ShardWriter& writer, int count, size_t size) {
  const std::string text(size, 'x');
  for (int i = 0; i < count; ++i) {
    const NewField fields[] = {{"cls", "1"}, {"txt", text}};
    MR_TRY(writer.add(fmt::format("k{:05}", i), fields));
  }
  return {};
}

TEST(ShardFileTest, AShardThatIsNotFinishedLeavesNothing) {
  millrace::testing::TemporaryDirectory directory;
  {
    auto shard = ShardFile::create(directory.path("a.tar"), {});
    ASSERT_TRUE(shard);
    const NewField fields[] = {{"txt", "hello"}};
    ASSERT_TRUE((*shard)->add("k", fields));
  }
  EXPECT_EQ(directory.names(), Texts());
}

TEST(ShardFileTest, TheIndexIsTheOneThatReadingGives) {
  for (const char* name : {"a.tar", "a.tar.gz", "a.tar.zst"}) {
    millrace::testing::TemporaryDirectory directory;
    const std::string path = directory.path(name);
    ShardWriter writer(*OutputName::parse(path), {}, {});
    ASSERT_TRUE(add_samples(writer, 100, 700));
    ASSERT_TRUE(writer.finish());
    const auto written = read_file(index_path(path), 1 << 20);
    ASSERT_TRUE(written);
    ASSERT_TRUE(make_index(path, {}));
    EXPECT_EQ(*written, *read_file(index_path(path), 1 << 20)) << name;
    const auto index = load_index(path);
    ASSERT_TRUE(index) << index.error().message();
    EXPECT_EQ(index->samples(), 100U);
  }
}

TEST(ShardFileTest, AnOlderIndexGoesWithTheOlderShard) {
  millrace::testing::TemporaryDirectory directory;
  const std::string path = directory.path("a.tar");
  ShardWriter first(*OutputName::parse(path), {}, {});
  ASSERT_TRUE(add_samples(first, 3, 10));
  ASSERT_TRUE(first.finish());
  OutputOptions without_index;
  without_index.index = IndexPolicy::kNone;
  ShardWriter second(*OutputName::parse(path), {}, without_index);
  ASSERT_TRUE(add_samples(second, 3, 20));
  ASSERT_TRUE(second.finish());
  EXPECT_EQ(directory.names(), (Texts{"a.tar"}));
}

TEST(IndexFileTest, AnIndexOfAnotherLengthIsStale) {
  millrace::testing::TemporaryDirectory directory;
  const std::string path = directory.path("a.tar");
  ShardWriter writer(*OutputName::parse(path), {}, {});
  ASSERT_TRUE(add_samples(writer, 3, 10));
  ASSERT_TRUE(writer.finish());
  ASSERT_TRUE(write_file_atomically(path, *read_file(path, 1 << 20) + std::string(512, '\0')));
  const auto index = load_index(path);
  ASSERT_FALSE(index);
  EXPECT_NE(index.error().message().find("stale"), std::string::npos);
}

TEST(ShardWriterTest, RollsByCountAndLeavesNoEmptyShard) {
  millrace::testing::TemporaryDirectory directory;
  ShardLimits limits;
  limits.max_samples = 5;
  ShardWriter writer(*OutputName::parse(directory.path("s-%02d.tar")), limits, {});
  ASSERT_TRUE(add_samples(writer, 10, 10));
  const auto shards = writer.finish();
  ASSERT_TRUE(shards);
  ASSERT_EQ(shards->size(), 2U);
  EXPECT_EQ((*shards)[0].samples, 5U);
  EXPECT_EQ((*shards)[1].samples, 5U);
}

TEST(ShardWriterTest, RollsBeforeAShardGetsTooLarge) {
  millrace::testing::TemporaryDirectory directory;
  ShardLimits limits;
  limits.max_bytes = 20'000;
  ShardWriter writer(*OutputName::parse(directory.path("s-%02d.tar")), limits, {});
  ASSERT_TRUE(add_samples(writer, 30, 3000));
  const auto shards = writer.finish();
  ASSERT_TRUE(shards);
  EXPECT_GT(shards->size(), 5U);
  uint64_t samples = 0;
  for (const ShardSummary& shard : *shards) {
    EXPECT_LE(shard.tar_bytes, limits.max_bytes);
    samples += shard.samples;
  }
  EXPECT_EQ(samples, 30U);
}

TEST(ShardWriterTest, NoSamplesMakeOneEmptyShard) {
  millrace::testing::TemporaryDirectory directory;
  ShardWriter writer(*OutputName::parse(directory.path("s-%d.tar")), {}, {});
  const auto shards = writer.finish();
  ASSERT_TRUE(shards);
  ASSERT_EQ(shards->size(), 1U);
  EXPECT_EQ((*shards)[0].tar_bytes, 1024U);
}

TEST(ShardWriterTest, AnInputIsNeverReplaced) {
  millrace::testing::TemporaryDirectory directory;
  ASSERT_TRUE(write_file_atomically(directory.path("s-0.tar"), "an input"));
  OutputOptions options;
  options.inputs = {*find_identity(directory.path("s-0.tar"))};
  ShardWriter writer(*OutputName::parse(directory.path("s-%d.tar")), {}, options);
  const auto added = add_samples(writer, 1, 1);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), Code::kInvalid);
  EXPECT_EQ(*read_file(directory.path("s-0.tar"), 100), "an input");
}

TEST(ShardWriterTest, EqualKeysOfCopiesAreCountedWhereverTheyStand) {
  millrace::testing::TemporaryDirectory directory;
  ShardWriter writer(*OutputName::parse(directory.path("s.tar")), {}, {});
  for (const char* key : {"a", "a", "b", "a"}) {
    tar::Sample sample;
    sample.key = key;
    sample.key_hash = hash64(key);
    const std::string name = std::string(key) + ".txt";
    tar::Field field;
    field.name = name;
    field.field = "txt";
    field.bytes = "x";
    sample.fields = {&field, 1};
    sample.copyable = false;
    ASSERT_TRUE(writer.add(sample));
  }
  const auto shards = writer.finish();
  ASSERT_TRUE(shards);
  EXPECT_EQ((*shards)[0].repeated_keys, 2U);
}

TEST(ShardWriterTest, NewSamplesThatNobodyCouldReadAreRefusedAndLeaveNoTrace) {
  millrace::testing::TemporaryDirectory directory;
  ShardWriter writer(*OutputName::parse(directory.path("s.tar")), {}, {});
  const NewField one[] = {{"txt", "x"}};
  const NewField doubled[] = {{"txt", "x"}, {"txt", "y"}};
  const NewField misnamed[] = {{"txt", "x"}, {"T/x", "y"}};
  ASSERT_TRUE(writer.add("a", one));
  EXPECT_EQ(writer.add("a", one).error().code(), Code::kExists);
  EXPECT_EQ(writer.add("b", {}).error().code(), Code::kInvalid);
  EXPECT_EQ(writer.add("b", doubled).error().code(), Code::kInvalid);
  EXPECT_EQ(writer.add("b", misnamed).error().code(), Code::kInvalid);
  ASSERT_TRUE(writer.add("b", one));
  EXPECT_EQ(writer.add("a", one).error().code(), Code::kExists);
  const auto shards = writer.finish();
  ASSERT_TRUE(shards);
  EXPECT_EQ((*shards)[0].samples, 2U);
  const auto index = load_index((*shards)[0].path);
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_EQ(index->samples(), 2U);
}

TEST(ShardWriterTest, ANameThatPromisesAnotherFormatIsRefused) {
  for (const char* name : {"a.tar.xz", "a.tar.bz2", "a.zip"}) {
    ShardWriter writer(*OutputName::parse(name), {}, {});
    const auto added = add_samples(writer, 1, 1);
    ASSERT_FALSE(added) << name;
    EXPECT_EQ(added.error().code(), Code::kUnsupported);
  }
}

TEST(ShardWriterTest, AnUnwritableDirectoryIsAnError) {
  ShardWriter writer(*OutputName::parse("/nonexistent/s-%d.tar"), {}, {});
  const auto added = add_samples(writer, 1, 1);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace millrace::shard
