// FeedReader: the same members as MemberReader for every way of cutting the bytes, and the same errors.
#include "tar/feed.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using namespace testing;

std::string small_archive() {
  return raw_file("a.jpg", "hello") + pax_header(pax_record("path", "long/name.jpg")) +
         raw_file("s", std::string(513, 'b')) + gnu_long(std::string(120, 'n')) +
         raw_member({.name = "n", .data = std::string(512, 'c'), .flavour = Flavour::kGnu}) +
         raw_member({.name = "d/", .type = kTypeDirectory}) + raw_file("e.x", "") + end_blocks();
}

std::string random_archive(Random& random) {
  std::string archive;
  for (uint64_t member = random.below(8); member > 0; --member) {
    if (random.below(3) == 0) archive += gnu_long(std::string(1 + random.below(2000), 'g'));
    if (random.below(3) == 0)
      archive += pax_header(pax_record("path", std::string(1 + random.below(2000), 'p')));
    if (random.below(6) == 0) archive += pax_header(pax_record("linkpath", "everywhere"), kTypePaxGlobal);
    archive += raw_file(fmt::format("{}.x", member), std::string(random.below(2000), 'd'));
  }
  return archive + end_blocks() + std::string(random.below(2000), '\0');
}

TEST(FeedReaderTest, EqualsMemberReaderForEveryChunkSize) {
  const std::string archive = small_archive();
  const Outcome mapped = read_mapped(archive);
  ASSERT_EQ(mapped.members.size(), 5u);
  for (size_t chunk = 1; chunk <= archive.size(); ++chunk) {
    const Outcome fed = read_feed(archive, chunk);
    ASSERT_FALSE(fed.error) << chunk << ": " << fed.error->message();
    ASSERT_EQ(fed.members, mapped.members) << chunk;
  }
}

TEST(FeedReaderTest, EqualsMemberReaderForConcatenatedArchives) {
  const std::string archive = small_archive() + small_archive() + std::string(512, '\0') + small_archive();
  const Outcome mapped = read_mapped(archive, Archives::kConcatenated);
  ASSERT_EQ(mapped.members.size(), 15u);
  for (const size_t chunk : {1, 3, 100, 511, 512, 513, 1000, 1024, 1536, 5000, 100'000}) {
    const Outcome fed = read_feed(archive, chunk, Archives::kConcatenated);
    ASSERT_FALSE(fed.error) << chunk << ": " << fed.error->message();
    ASSERT_EQ(fed.members, mapped.members) << chunk;
  }
}

TEST(FeedReaderTest, EqualsMemberReaderForRandomArchivesInRandomChunks) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string archive = random_archive(random);
    const Outcome mapped = read_mapped(archive);
    const Outcome fed = read_feed_by(
        archive, Archives::kOne, [&](size_t) { return 1 + random.below(random.below(8) == 0 ? 4000 : 400); });
    ASSERT_FALSE(mapped.error);
    ASSERT_FALSE(fed.error);
    ASSERT_EQ(fed.members, mapped.members);
  }
}

TEST(FeedReaderTest, EqualsMemberReaderForDamagedArchives) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string archive = random_archive(random);
    for (int i = 0; i < 3; ++i) archive[random.below(archive.size())] = static_cast<char>(random.next());
    for (const Archives archives : {Archives::kOne, Archives::kConcatenated}) {
      const Outcome mapped = read_mapped(archive, archives);
      const Outcome fed = read_feed_by(archive, archives, [&](size_t) { return 1 + random.below(700); });
      ASSERT_EQ(fed.error.has_value(), mapped.error.has_value());
      ASSERT_EQ(fed.members, mapped.members);
    }
  }
}

TEST(FeedReaderTest, AnArchiveCutAtAnyByteIsAnErrorThatNamesIt) {
  const std::string archive = small_archive();
  const Outcome whole = read_mapped(archive);
  for (size_t size = 0; size < archive.size(); ++size) {
    for (const size_t chunk : {archive.size(), size_t{100}}) {
      SCOPED_TRACE(fmt::format("{} bytes in chunks of {}", size, chunk));
      const Outcome fed = read_feed(archive.substr(0, size), chunk);
      ASSERT_TRUE(fed.error);
      EXPECT_EQ(fed.error->code(), Code::kTruncated) << fed.error->message();
      EXPECT_TRUE(fed.error->message().starts_with("test.tar: "));
      ASSERT_LE(fed.members.size(), whole.members.size());
      for (size_t i = 0; i < fed.members.size(); ++i) EXPECT_EQ(fed.members[i], whole.members[i]);
    }
  }
}

TEST(FeedReaderTest, GivesDataAsViewsIntoTheChunk) {
  const std::string archive = raw_file("a.jpg", "hello") + end_blocks();
  FeedReader reader("test.tar");
  EXPECT_EQ(reader.next()->kind, FeedReader::Kind::kNeedBytes);
  reader.feed(archive);
  const auto member = reader.next();
  ASSERT_EQ(member->kind, FeedReader::Kind::kMember);
  EXPECT_EQ(member->member->name.data(), archive.data());
  const auto piece = reader.next();
  ASSERT_EQ(piece->kind, FeedReader::Kind::kPiece);
  EXPECT_EQ(piece->piece.data(), archive.data() + 512);
  EXPECT_EQ(reader.next()->kind, FeedReader::Kind::kNeedBytes);
  reader.finish();
  EXPECT_EQ(reader.next()->kind, FeedReader::Kind::kEnd);
  EXPECT_EQ(reader.next()->kind, FeedReader::Kind::kEnd);
}

TEST(FeedReaderTest, AMemberFromTwoChunksOutlivesTheFirst) {
  const std::string archive = raw_file("a.jpg", "hello") + end_blocks();
  FeedReader reader("test.tar");
  auto first = std::make_unique<std::string>(archive.substr(0, 300));
  reader.feed(*first);
  EXPECT_EQ(reader.next()->kind, FeedReader::Kind::kNeedBytes);
  first.reset();
  reader.feed(std::string_view(archive).substr(300));
  const auto member = reader.next();
  ASSERT_EQ(member->kind, FeedReader::Kind::kMember);
  EXPECT_EQ(member->member->name, "a.jpg");
  EXPECT_EQ(member->member->header->type, kTypeFile);
}

TEST(FeedReaderTest, PassesMembersAboveEightGibibytesWithoutTouchingThem) {
  constexpr uint64_t kHuge = uint64_t{9} << 30;
  const std::string chunk(16 << 20, 'x');
  FeedReader reader("test.tar");
  const std::string header = make_header({.name = "huge.bin", .size = kHuge}).take();
  reader.feed(header);
  EXPECT_EQ(reader.next()->member->size, kHuge);
  EXPECT_EQ(reader.next()->kind, FeedReader::Kind::kNeedBytes);
  uint64_t got = 0;
  while (got < kHuge) {
    reader.feed(chunk);
    const auto piece = reader.next();
    ASSERT_EQ(piece->kind, FeedReader::Kind::kPiece);
    got += piece->piece.size();
    ASSERT_EQ(reader.next()->kind, FeedReader::Kind::kNeedBytes);
  }
  const std::string rest = raw_file("b.jpg", "") + end_blocks();
  reader.feed(rest);
  EXPECT_EQ(reader.next()->member->header_offset, header.size() + kHuge);
}

TEST(FeedReaderTest, EmptyChunksChangeNothing) {
  const std::string archive = small_archive();
  size_t turn = 0;
  const Outcome fed =
      read_feed_by(archive, Archives::kOne, [&](size_t) { return ++turn % 2 == 0 ? 0 : 200; });
  EXPECT_FALSE(fed.error);
  EXPECT_EQ(fed.members, read_mapped(archive).members);
}

TEST(FeedReaderTest, DataBehindTheEndIsFoundInLaterChunksToo) {
  const std::string archive = small_archive() + std::string(5000, '\0') + "x";
  for (const size_t chunk : {100, 512, 100'000}) {
    const Outcome fed = read_feed(archive, chunk);
    ASSERT_TRUE(fed.error);
    EXPECT_EQ(fed.error->code(), Code::kCorrupt);
    EXPECT_EQ(fed.members.size(), 5u);
  }
}

TEST(FeedReaderDeathTest, FeedingBeforeTheLastChunkIsUsedUpIsABug) {
  const std::string archive = small_archive();
  FeedReader reader("test.tar");
  reader.feed(archive);
  EXPECT_DEATH(reader.feed(archive), "chunk_.empty");
}

}  // namespace
}  // namespace millrace::tar
