// The shard index: built two ways alike, every accessor, and nothing believed that was damaged.
#include "tar/index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/crc.h"
#include "base/hash.h"
#include "base/random.h"
#include "tar/index_build.h"
#include "tar/index_layout.h"
#include "tar/sample.h"
#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using namespace testing;

const ReadOptions kMark = {.group = {.on_fault = OnFault::kMark}};

std::string small_shard() {
  return raw_file("a.jpg", "hello") + raw_file("a.cls", "7") + raw_file("README", "loose") +
         raw_file("b.jpg", std::string(1000, 'x')) + pax_header(pax_record("path", "c/d.Seg.PNG")) +
         raw_file("s", "") + raw_file("c/d.cls", "9") + end_blocks();
}

Result<std::string> index_by_feed(std::string_view shard, size_t chunk = SIZE_MAX, ReadOptions options = {}) {
  IndexFeed feed("test.tar", options);
  while (!shard.empty()) {
    const std::string_view piece = shard.substr(0, chunk);
    feed.add_stored(piece);
    MR_TRY(feed.add_tar(piece));
    shard.remove_prefix(piece.size());
  }
  return feed.finish(Compression::kNone);
}

std::string index_by_builder(const std::string& shard, const ReadOptions& options = {}) {
  MappedWindow window(shard);
  SampleReader reader(window, "test.tar", options);
  IndexBuilder builder;
  while (const Sample* sample = reader.next().take()) {
    builder.begin_sample(sample->offset, sample->key_hash);
    for (const Field& field : sample->fields)
      builder.add_field({field.field, field.data_offset, field.bytes.size(), crc32c(field.bytes)});
    builder.end_sample(sample->offset + sample->blocks.size());
  }
  return std::move(builder)
      .finish({{shard.size(), hash64(shard)}, shard.size(), Compression::kNone, options.group.key_rule})
      .take();
}

Index parse(std::string bytes) {
  auto index = Index::parse(std::move(bytes));
  EXPECT_TRUE(index) << index.error().message();
  return index.take();
}

// Makes the checksum right again, so that what lies behind it is tested.
std::string resealed(std::string bytes) {
  bytes.resize(bytes.size() - layout::kChecksumBytes);
  layout::put(bytes, hash64(bytes));
  return bytes;
}

template <typename Word>
std::string with_word(std::string bytes, size_t at, Word word) {
  std::memcpy(bytes.data() + at, &word, sizeof word);
  return resealed(bytes);
}

TEST(IndexTest, KnowsWhatIsWhere) {
  const std::string shard = small_shard();
  const Index index = parse(index_by_feed(shard).take());
  EXPECT_EQ(index.shard(), (ShardIdentity{shard.size(), hash64(shard)}));
  EXPECT_EQ(index.tar_bytes(), shard.size());
  EXPECT_EQ(index.compression(), Compression::kNone);
  EXPECT_EQ(index.key_rule(), KeyRule::kFirstDot);
  ASSERT_EQ(index.samples(), 3u);
  EXPECT_EQ(index.range(0).offset, 0u);
  EXPECT_EQ(index.range(0).size, 2048u);
  EXPECT_EQ(index.range(1).offset, 3072u);
  EXPECT_EQ(index.range(1).size, 1536u);
  EXPECT_EQ(index.range(2).offset, 4608u);
  EXPECT_EQ(index.key_hash(2), hash64("c/d"));
  EXPECT_EQ(index.field_names(), (std::vector<std::string_view>{"jpg", "cls", "seg.png"}));
  const std::vector<Index::Field> fields = index.fields(0);
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(shard.substr(fields[0].offset, fields[0].size), "hello");
  EXPECT_EQ(shard.substr(fields[1].offset, fields[1].size), "7");
  EXPECT_EQ(fields[0].crc, crc32c("hello"));
  EXPECT_EQ(fields[1].crc, crc32c("7"));
  EXPECT_EQ(fields[1].field, "cls");
  EXPECT_EQ(index.fields(2)[0].field, "seg.png");
  EXPECT_EQ(index.fields(2)[0].offset, 4608u + 3 * kBlock);
}

TEST(IndexTest, FindsSamplesByKey) {
  const Index index = parse(index_by_feed(small_shard()).take());
  EXPECT_EQ(index.find("a"), std::vector<uint64_t>{0});
  EXPECT_EQ(index.find("b"), std::vector<uint64_t>{1});
  EXPECT_EQ(index.find("c/d"), std::vector<uint64_t>{2});
  EXPECT_TRUE(index.find("").empty());
  EXPECT_TRUE(index.find("a.jpg").empty());
}

TEST(IndexTest, FindsEveryHalfOfAScatteredSample) {
  const std::string shard =
      raw_file("a.jpg", "1") + raw_file("b.jpg", "2") + raw_file("a.cls", "3") + end_blocks();
  const Index index = parse(index_by_feed(shard, SIZE_MAX, kMark).take());
  EXPECT_EQ(index.find("a"), (std::vector<uint64_t>{0, 2}));
  EXPECT_EQ(index.find("b"), std::vector<uint64_t>{1});
}

TEST(IndexTest, FindsEveryKeyOfALargeShard) {
  std::string shard;
  for (int i = 0; i < 2000; ++i) shard += raw_file(fmt::format("{:05}.cls", i), "1");
  const Index index = parse(index_by_feed(shard + end_blocks(), 100'000).take());
  for (uint64_t i = 0; i < 2000; ++i)
    ASSERT_EQ(index.find(fmt::format("{:05}", i)), std::vector<uint64_t>{i});
  for (int i = 2000; i < 4000; ++i) ASSERT_TRUE(index.find(fmt::format("{:05}", i)).empty());
}

TEST(IndexTest, AnEmptyShardHasAnIndexToo) {
  const Index index = parse(index_by_feed(end_blocks()).take());
  EXPECT_EQ(index.samples(), 0u);
  EXPECT_TRUE(index.find("a").empty());
  EXPECT_TRUE(index.field_names().empty());
}

TEST(IndexTest, RemembersTheKeyRuleAndTheCompression) {
  IndexFeed feed("test.tar", {.group = {.key_rule = KeyRule::kLastDot}});
  feed.add_stored("the compressed bytes");
  const std::string shard = raw_file("a.1.jpg", "1") + raw_file("a.2.jpg", "2") + end_blocks();
  ASSERT_TRUE(feed.add_tar(shard));
  EXPECT_EQ(feed.samples(), 2u);
  const Index index = parse(feed.finish(Compression::kZstd).take());
  EXPECT_EQ(index.key_rule(), KeyRule::kLastDot);
  EXPECT_EQ(index.compression(), Compression::kZstd);
  EXPECT_EQ(index.shard(), (ShardIdentity{20, hash64("the compressed bytes")}));
  EXPECT_EQ(index.tar_bytes(), shard.size());
  EXPECT_EQ(index.find("a.2"), std::vector<uint64_t>{1});
}

TEST(IndexTest, StaysWholeWhenItIsMoved) {
  Index index = parse(index_by_feed(small_shard()).take());
  const Index moved = std::move(index);
  EXPECT_EQ(moved.fields(0)[0].field, "jpg");
  EXPECT_EQ(parse(moved.bytes()).samples(), 3u);
  static_assert(!std::is_copy_constructible_v<Index>, "a copy's field names would point into the original");
}

TEST(IndexTest, IsAtMostTwoPercentOfAShardOfSmallSamples) {
  std::string shard;
  for (int i = 0; i < 500; ++i) shard += raw_file(fmt::format("train/{:08}.jpg", i), std::string(4096, 'x'));
  shard += end_blocks();
  EXPECT_LE(index_by_feed(shard)->size(), shard.size() * 2 / 100);
}

TEST(IndexBuildTest, FeedAndBuilderGiveTheSameBytes) {
  const std::string shard = small_shard();
  const std::string index = index_by_builder(shard);
  for (const size_t chunk : {1, 100, 512, 1000, 100'000})
    EXPECT_EQ(*index_by_feed(shard, chunk), index) << chunk;
}

TEST(IndexBuildTest, FeedAndBuilderGiveTheSameBytesForRandomShards) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string shard;
    for (uint64_t i = random.below(40); i > 0; --i) {
      const uint64_t name = random.below(60);
      shard += raw_file(fmt::format("{}.f{}", name / 4, name % 4), std::string(random.below(1500), 'x'));
      if (random.below(5) == 0) shard += raw_file("noext", "loose");
    }
    shard += end_blocks();
    const std::string index = index_by_feed(shard, 1 + random.below(2000), kMark).take();
    EXPECT_EQ(index, index_by_builder(shard, kMark));
    EXPECT_TRUE(Index::parse(index));
  }
}

TEST(IndexBuildTest, ADamagedOrCutShardHasNoIndex) {
  const std::string shard = small_shard();
  for (size_t size = 0; size < shard.size(); size += 100) {
    const auto index = index_by_feed(shard.substr(0, size));
    ASSERT_FALSE(index) << size;
    EXPECT_EQ(index.error().code(), Code::kTruncated);
  }
  std::string damaged = shard;
  damaged[1024] = 'X';
  EXPECT_EQ(index_by_feed(damaged).error().code(), Code::kCorrupt);
  EXPECT_EQ(index_by_feed(shard + "x").error().code(), Code::kCorrupt);
}

TEST(IndexBuildTest, AScatteredShardHasNoIndexUnlessAskedFor) {
  const std::string shard =
      raw_file("a.jpg", "1") + raw_file("b.jpg", "2") + raw_file("a.cls", "3") + end_blocks();
  EXPECT_EQ(index_by_feed(shard).error().code(), Code::kCorrupt);
  EXPECT_TRUE(index_by_feed(shard, SIZE_MAX, kMark));
}

TEST(IndexBuildTest, AFieldTooFarFromItsSampleIsBeyondTheFormat) {
  IndexBuilder builder;
  builder.begin_sample(0, 1);
  builder.add_field({"jpg", (layout::kBlocksMask + 1) * kBlock, 0});
  builder.end_sample((layout::kBlocksMask + 2) * kBlock);
  EXPECT_EQ(std::move(builder).finish({}).error().code(), Code::kTooLarge);
}

TEST(IndexDamageTest, EverySingleChangedByteIsFound) {
  const std::string bytes = index_by_feed(small_shard()).take();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(value);
      if (damaged == bytes) continue;
      const auto index = Index::parse(std::move(damaged));
      ASSERT_FALSE(index) << "byte " << at << " set to " << value;
      EXPECT_FALSE(index.error().hint().empty());
    }
  }
}

TEST(IndexDamageTest, EveryCutIsFound) {
  const std::string bytes = index_by_feed(small_shard()).take();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(Index::parse(bytes.substr(0, size))) << size;
    if (size >= layout::kChecksumBytes) ASSERT_FALSE(Index::parse(resealed(bytes.substr(0, size)))) << size;
  }
  EXPECT_FALSE(Index::parse(bytes + "x"));
  EXPECT_FALSE(Index::parse(resealed(bytes + "x")));
}

TEST(IndexDamageTest, AnotherVersionIsUnsupportedRatherThanDamaged) {
  const std::string bytes = index_by_feed(small_shard()).take();
  EXPECT_EQ(Index::parse(with_word<uint32_t>(bytes, layout::kVersionAt, layout::kVersion + 1)).error().code(),
            Code::kUnsupported);
}

TEST(IndexDamageTest, CountsThatDoNotAddUpAreFound) {
  const std::string bytes = index_by_feed(small_shard()).take();
  for (const size_t at :
       {layout::kSampleCountAt, layout::kFieldCountAt, layout::kNameCountAt, layout::kNameBytesAt}) {
    const auto count = layout::get<uint64_t>(bytes, at);
    for (const uint64_t wrong :
         {count + 1, count - 1, uint64_t{0}, UINT64_MAX, uint64_t{1} << 60, uint64_t{1} << 32}) {
      EXPECT_FALSE(Index::parse(with_word(bytes, at, wrong))) << at << " " << wrong;
    }
  }
}

TEST(IndexDamageTest, UnknownHeaderValuesAreFound) {
  const std::string bytes = index_by_feed(small_shard()).take();
  EXPECT_FALSE(Index::parse(with_word<uint8_t>(bytes, layout::kCompressionAt, 5)));
  EXPECT_FALSE(Index::parse(with_word<uint8_t>(bytes, layout::kKeyRuleAt, 2)));
  EXPECT_FALSE(Index::parse(with_word<uint16_t>(bytes, layout::kZeroAt, 1)));
}

TEST(IndexDamageTest, SamplesOutsideTheShardAreFound) {
  const std::string bytes = index_by_feed(small_shard()).take();
  const size_t first = layout::kHeaderBytes;
  const size_t second = first + layout::kSampleRow;
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, second, 1024)));        // inside the first
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, first, 100)));          // not on a block
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, first + 8, 100)));      // not whole blocks
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, first + 8, 1 << 20)));  // beyond the end
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, first, UINT64_MAX - 511)));
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, first + 8, UINT64_MAX - 511)));
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, layout::kTarBytesAt, 1024)));
}

TEST(IndexDamageTest, FieldsOutsideTheirSampleAreFound) {
  const std::string bytes = index_by_feed(small_shard()).take();
  const size_t fields = layout::kHeaderBytes + 3 * layout::kSampleRow;
  const auto place = layout::get<uint64_t>(bytes, fields);
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, fields, place + 1000)));  // too far
  EXPECT_FALSE(
      Index::parse(with_word<uint64_t>(bytes, fields, place | layout::kBlocksMask)));  // much too far
  EXPECT_FALSE(
      Index::parse(with_word<uint64_t>(bytes, fields, place | (99ull << layout::kNameShift))));  // no name
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, fields + 8, 100'000)));                   // too large
  EXPECT_FALSE(Index::parse(with_word<uint64_t>(bytes, fields + 8, UINT64_MAX)));
  EXPECT_FALSE(
      Index::parse(with_word<uint32_t>(bytes, layout::kHeaderBytes + 24, 1)));  // first field of the first
  EXPECT_FALSE(
      Index::parse(with_word<uint32_t>(bytes, layout::kHeaderBytes + layout::kSampleRow + 24, UINT32_MAX)));
}

TEST(IndexDamageTest, AKeyTableOutOfOrderIsFound) {
  const std::string bytes = index_by_feed(small_shard()).take();
  const size_t table = layout::kHeaderBytes + 3 * layout::kSampleRow + 5 * layout::kFieldRow;
  const auto first = layout::get<uint32_t>(bytes, table);
  const auto second = layout::get<uint32_t>(bytes, table + 4);
  EXPECT_FALSE(Index::parse(with_word<uint32_t>(bytes, table, second)));
  EXPECT_FALSE(Index::parse(with_word<uint32_t>(bytes, table + 4, first)));
  EXPECT_FALSE(Index::parse(with_word<uint32_t>(bytes, table, 3)));
  EXPECT_FALSE(Index::parse(with_word<uint32_t>(bytes, table + 8, UINT32_MAX)));
}

TEST(IndexDamageTest, FieldNamesThatDoNotAddUpAreFound) {
  const std::string bytes = index_by_feed(small_shard()).take();
  const size_t names =
      layout::kHeaderBytes + 3 * (layout::kSampleRow + layout::kHashRow) + 5 * layout::kFieldRow;
  ASSERT_EQ(layout::get<uint32_t>(bytes, names), 3u);
  for (const uint32_t size : {0u, 2u, 4u, 1000u, UINT32_MAX}) {
    EXPECT_FALSE(Index::parse(with_word<uint32_t>(bytes, names, size))) << size;
  }
}

TEST(IndexDamageTest, RandomDamageUnderARightChecksumNeverMakesAnAccessorUnsafe) {
  const std::string bytes = index_by_feed(small_shard()).take();
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string damaged = bytes;
    for (uint64_t i = 1 + random.below(3); i > 0; --i)
      damaged[random.below(bytes.size())] = static_cast<char>(random.next());
    auto parsed = Index::parse(resealed(damaged));
    if (!parsed) continue;
    const Index index = parsed.take();
    for (uint64_t sample = 0; sample < index.samples(); ++sample) {
      const Index::Range range = index.range(sample);
      ASSERT_LE(range.offset + range.size, index.tar_bytes());
      for (const Index::Field& field : index.fields(sample)) {
        ASSERT_GE(field.offset, range.offset);
        ASSERT_LE(field.offset + field.size, range.offset + range.size);
      }
    }
    EXPECT_TRUE(index.find("nobody").empty());
  }
}

TEST(IndexDeathTest, AskingForTheFieldsOfNoSampleIsABug) {
  const Index index = parse(index_by_feed(small_shard()).take());
  EXPECT_DEATH(static_cast<void>(index.fields(3)), "sample < sample_count_");
}

}  // namespace
}  // namespace millrace::tar
