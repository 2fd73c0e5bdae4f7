// Records and trailers: what was written is read back, and everything else is found out.
#include "store/record.h"

#include <gtest/gtest.h>

#include "base/crc.h"
#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "store/buckets.h"
#include "store/index.h"
#include "store/trailer.h"
#include "store/uploads.h"

namespace millrace::store {
namespace {

Record some_record() {
  Record record;
  record.version = {0, 77, 0};
  record.size = 3 * kBlockBytes + 5;
  record.modified_ms = 1'700'000'000'123;
  record.etag = "0123456789abcdef-3";
  record.crc32c = 0xdeadbeef;
  record.headers = {{"content-type", "application/x-tar"}, {"x-amz-meta-note", ""}};
  record.tags = {{"a", "b"}};
  record.pieces = {{5, 2 * kBlockBytes}, {6, kBlockBytes + 5}};
  record.head = 9;
  record.shard = ShardState::kReady;
  record.shard_samples = 12;
  record.shard_index_offset = 0;
  record.shard_index_size = 99;
  return record;
}

TEST(RecordTest, ComesBackAsItWas) {
  const Record record = some_record();
  const auto back = decode_record(encode_record(record));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, record);
  const std::string encoded = encode_record(record);
  const auto summary = summarize_record(encoded);
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->etag, record.etag);
  EXPECT_EQ(summary->size, record.size);
}

Record some_slice() {
  Record record = some_record();
  record.version = {3, 77, 9};
  record.spread = {4, 2, 5, 1 << 20, "0123456789abcdef", {11, 12, 13, 14, 15, 16}};
  return record;
}

TEST(RecordTest, ASliceKnowsItsEpochItsWriteAndItsHolders) {
  const Record record = some_slice();
  const std::string encoded = encode_record(record);
  const auto back = decode_record(encoded);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, record);
  EXPECT_EQ(summarize_record(encoded)->version, record.version);
  EXPECT_EQ(decode_spread_of(encoded).take(), record.spread);
  EXPECT_EQ(decode_spread_of(encode_record(some_record())).take(), Spread());
}

TEST(RecordTest, OneCopyOnOneMachinePaysForNoneOfThat) {
  Record slice = some_slice();
  const size_t spread_bytes = 3 + 4 + 4 + kWriteIdBytes + 1 + 6 * 8;
  const size_t epoch_bytes = 8;
  EXPECT_EQ(encode_record(slice).size(), encode_record(some_record()).size() + spread_bytes + epoch_bytes);
}

TEST(RecordTest, AnObjectOfPartsKnowsItsUpload) {
  Record record = some_record();
  record.upload = "0123456789abcdef0123456789abcdef";
  EXPECT_EQ(decode_record(encode_record(record)).take(), record);
  record.upload = std::string(kMaxUploadIdBytes + 1, 'x');
  EXPECT_FALSE(decode_record(encode_record(record)));
  record.upload = "0123";
  record.pieces.clear();
  record.size = 0;
  EXPECT_FALSE(decode_record(encode_record(record))) << "it has no parts";
}

TEST(RecordTest, ImpossibleSlicesAreRefused) {
  const auto changed = [](auto change) {
    Record record = some_slice();
    change(record.spread);
    return decode_record(encode_record(record));
  };
  EXPECT_FALSE(changed([](Spread& spread) { spread.k = 0; }));
  EXPECT_FALSE(changed([](Spread& spread) { spread.slot = 6; }));
  EXPECT_FALSE(changed([](Spread& spread) { spread.cell = 0; }));
  EXPECT_FALSE(changed([](Spread& spread) { spread.k = 63; }));
  EXPECT_FALSE(changed([](Spread& spread) { spread.write_id = "short"; }));
  EXPECT_FALSE(changed([](Spread& spread) { spread.holders.push_back(17); }));
  EXPECT_TRUE(changed([](Spread& spread) { spread.holders.pop_back(); }));
}

TEST(VersionTest, TheEpochComesBeforeTheCounterAndTheNodeLast) {
  EXPECT_LT((Version{1, 900, 9}), (Version{2, 1, 0}));
  EXPECT_LT((Version{2, 1, 9}), (Version{2, 2, 0}));
  EXPECT_LT((Version{2, 2, 1}), (Version{2, 2, 2}));
  EXPECT_EQ((Version{2, 2, 2}), (Version{2, 2, 2}));
}

class DamagedRecordTest : public ::testing::TestWithParam<Record (*)()> {};
INSTANTIATE_TEST_SUITE_P(RecordTest, DamagedRecordTest, ::testing::Values(&some_record, &some_slice));

TEST_P(DamagedRecordTest, EveryCutAndEveryFlippedByteIsFoundOut) {
  const std::string encoded = encode_record(GetParam()());
  for (size_t size = 0; size < encoded.size(); ++size) EXPECT_FALSE(decode_record(encoded.substr(0, size)));
  for (size_t at = 0; at < encoded.size(); ++at) {
    std::string damaged = encoded;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    EXPECT_FALSE(decode_record(damaged)) << at;
  }
}

TEST(RecordTest, RandomBytesAreNeverARecord) {
  const uint64_t seed = 42;
  Random random(seed);
  for (int turn = 0; turn < 10'000; ++turn) {
    std::string bytes(random.below(200), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.next());
    if (!bytes.empty()) bytes[0] = 1;  // past the format number
    EXPECT_FALSE(decode_record(bytes)) << "seed " << seed << " turn " << turn;
    EXPECT_FALSE(decode_bucket(bytes));
    EXPECT_FALSE(decode_upload("u", bytes));
  }
}

TEST(RecordTest, PiecesMustAddUp) {
  Record record = some_record();
  record.pieces.pop_back();
  EXPECT_EQ(decode_record(encode_record(record)).error().code(), Code::kCorrupt);
  record.pieces.clear();
  EXPECT_EQ(decode_record(encode_record(record)).error().code(), Code::kCorrupt);
}

TEST(RecordTest, AFormatOfTomorrowIsNamedBeforeItsChecksumIsCompared) {
  std::string encoded = encode_record(some_record());
  encoded[0] = 9;
  const auto decoded = decode_record(encoded);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code(), Code::kUnsupported);
  EXPECT_NE(decoded.error().message().find("unknown format 9"), std::string::npos);
}

TEST(RecordTest, ItsFilesAreItsPiecesAndItsHead) {
  Record record = some_record();
  EXPECT_EQ(files_of(record), (std::vector<uint64_t>{5, 6, 9}));
  record.head = 5;
  EXPECT_EQ(files_of(record), (std::vector<uint64_t>{5, 6}));
  EXPECT_TRUE(files_of(Record()).empty());
}

class TrailerTest : public ::testing::Test {
 protected:
  std::string write(const std::string& bytes) {
    const std::string path = directory_.path("file");
    EXPECT_TRUE(write_file_atomically(path, bytes));
    return path;
  }
  Trailer some_trailer() {
    Trailer trailer;
    trailer.kind = FileKind::kPart;
    trailer.file = 5;
    trailer.data_size = 10;
    trailer.bucket = "data";
    trailer.key = "a/b.tar";
    trailer.upload = "u1";
    trailer.part_number = 3;
    trailer.initiated_ms = 12;
    trailer.upload_headers = {{"content-type", "x"}};
    trailer.record = some_record();
    trailer.block_crcs = {crc32c("0123456789")};
    trailer.shard_index = "index bytes";
    return trailer;
  }
  millrace::testing::TemporaryDirectory directory_;
};

TEST_F(TrailerTest, ComesBackAsItWas) {
  Trailer trailer = some_trailer();
  const std::string end = encode_trailer(trailer);
  std::string bytes = "0123456789";
  bytes.resize(kPageBytes);
  const auto file = File::open_read(write(bytes + end));
  ASSERT_TRUE(file);
  const auto back = read_trailer(*file, TrailerParts::kAll);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->record, trailer.record);
  EXPECT_EQ(back->block_crcs, trailer.block_crcs);
  EXPECT_EQ(back->shard_index, "index bytes");
  EXPECT_EQ(back->upload, "u1");
  EXPECT_EQ(back->upload_headers, trailer.upload_headers);
}

TEST_F(TrailerTest, EveryFlippedByteOfTheEndIsFoundOut) {
  Trailer trailer = some_trailer();
  const std::string end = encode_trailer(trailer);
  const std::string data(kPageBytes, '0');
  for (size_t at = 0; at < end.size(); ++at) {
    std::string damaged = end;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    const auto file = File::open_read(write(data + damaged));
    ASSERT_TRUE(file);
    EXPECT_FALSE(read_trailer(*file, TrailerParts::kAll)) << at;
  }
}

TEST_F(TrailerTest, ACutFileIsFoundOut) {
  Trailer trailer = some_trailer();
  const std::string bytes = std::string(kPageBytes, '0') + encode_trailer(trailer);
  for (const size_t size : {size_t{0}, size_t{10}, size_t{kPageBytes}, bytes.size() - 1}) {
    const auto file = File::open_read(write(bytes.substr(0, size)));
    ASSERT_TRUE(file);
    EXPECT_FALSE(read_trailer(*file, TrailerParts::kAll)) << size;
  }
}

TEST(BucketTest, NamesAreThoseOfS3) {
  for (const char* good : {"abc", "a-b", "a.b", "0ab", "my-bucket.example.org"})
    EXPECT_TRUE(check_bucket_name(good, NameRule::kS3)) << good;
  for (const char* bad : {"", "Abc", "a_b", "-ab", "ab-", ".ab", "a..b", "a/b"}) {
    EXPECT_FALSE(check_bucket_name(bad, NameRule::kS3)) << bad;
    EXPECT_FALSE(check_bucket_name(bad, NameRule::kShort)) << bad;
  }
  EXPECT_FALSE(check_bucket_name(std::string(64, 'a'), NameRule::kShort));
  for (const char* ours : {"a", "ab", "192.168.5.4", "xn--ab", "a-.b", "a.-b", "box-s3alias", "box--ol-s3"}) {
    EXPECT_FALSE(check_bucket_name(ours, NameRule::kS3)) << ours;
    EXPECT_TRUE(check_bucket_name(ours, NameRule::kShort)) << ours;
  }
}

TEST(BucketTest, KeysAreUtf8) {
  for (const char* good : {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "/", " "})
    EXPECT_TRUE(check_key(good)) << good;
  for (const char* bad : {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"})
    EXPECT_FALSE(check_key(bad)) << bad;
  EXPECT_FALSE(check_key(std::string_view("a\0b", 3)));
}

TEST(BucketTest, TheNewestRecordWins) {
  BucketTable table;
  BucketRecord record;
  record.bucket = {"data", 1, 5, {}};
  record.bucket.settings.verify = Compare::kRead;
  const auto back = decode_bucket(encode_bucket(record));
  ASSERT_TRUE(back);
  table.learn(*back);
  EXPECT_EQ(table.verify_of(record.bucket.name), Compare::kRead);
  record.bucket.version = 9;
  record.removed = true;
  table.learn(record);
  record.bucket.version = 7;
  record.removed = false;
  table.learn(record);  // a drive that was away
  EXPECT_EQ(table.find("data"), nullptr);
  EXPECT_EQ(table.verify_of(record.bucket.name), Compare::kFirst);
}

}  // namespace
}  // namespace millrace::store
