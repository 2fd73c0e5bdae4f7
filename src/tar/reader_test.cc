// MemberReader over mapped archives and streams: cuts at every byte, data in pieces, members beyond 8 GiB,
// and going on behind damage.
#include "tar/reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using namespace testing;

// Every kind of header, so that a cut anywhere meets each of them.
std::string varied_archive() {
  return raw_file("a.jpg", "hello") +
         pax_header(pax_record("path", "long/name.jpg") + pax_record("comment", "x")) +
         raw_file("short", std::string(513, 'b')) + gnu_long(std::string(120, 'n') + ".jpg") +
         raw_member({.name = "n", .data = std::string(512, 'c'), .flavour = Flavour::kGnu}) +
         raw_member({.name = "d/", .type = kTypeDirectory}) + end_blocks();
}

void expect_cut(const Outcome& outcome, const Outcome& whole) {
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code(), Code::kTruncated) << outcome.error->message();
  EXPECT_TRUE(outcome.error->message().starts_with("test.tar: ")) << outcome.error->message();
  EXPECT_FALSE(outcome.error->hint().empty());
  ASSERT_LE(outcome.members.size(), whole.members.size());
  for (size_t i = 0; i < outcome.members.size(); ++i) EXPECT_EQ(outcome.members[i], whole.members[i]);
}

TEST(MemberReaderTest, AMappedArchiveCutAtAnyByteIsAnError) {
  const std::string archive = varied_archive();
  const Outcome whole = read_mapped(archive);
  ASSERT_EQ(whole.members.size(), 4u);
  ASSERT_FALSE(whole.error);
  for (size_t size = 0; size < archive.size(); ++size) {
    SCOPED_TRACE(size);
    expect_cut(read_mapped(archive.substr(0, size)), whole);
  }
}

TEST(MemberReaderTest, AStreamCutAtAnyByteIsAnError) {
  const std::string archive = varied_archive();
  const Outcome whole = read_mapped(archive);
  for (size_t size = 0; size < archive.size(); ++size) {
    SCOPED_TRACE(size);
    expect_cut(read_stream(archive.substr(0, size), 700), whole);
  }
}

TEST(MemberReaderTest, ACutIsAnErrorAlsoWhereNobodyReadsTheData) {
  const std::string archive = raw_file("a.jpg", std::string(3000, 'x')) + end_blocks();
  for (size_t size = 0; size < archive.size(); ++size) {
    SCOPED_TRACE(size);
    const std::string cut = archive.substr(0, size);
    StringSource source(cut);
    StreamWindow stream(source);
    MappedWindow mapped(cut);
    for (Window* window : {static_cast<Window*>(&stream), static_cast<Window*>(&mapped)}) {
      MemberReader reader(*window, "test.tar");
      auto member = reader.next();
      if (size >= kBlock) {
        ASSERT_TRUE(member) << member.error().message();
        member = reader.next();
      }
      ASSERT_FALSE(member);
      EXPECT_EQ(member.error().code(), Code::kTruncated);
    }
  }
}

TEST(MemberReaderTest, SaysWhichMemberIsCutAndWhere) {
  const std::string archive = raw_file("a.jpg", "1") + raw_file("b.jpg", std::string(1000, 'x'));
  const std::string cut = archive.substr(0, 1024 + 512 + 300);
  for (const Outcome& outcome : {read_mapped(cut), read_stream(cut, 700), read_feed(cut, 700)}) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->message(),
              "test.tar: cut inside member \"b.jpg\" at byte 1836: 700 of its bytes are missing");
  }
}

TEST(MemberReaderTest, AConcatenatedArchiveCutInsideAMemberIsAnError) {
  const std::string first = raw_file("a.jpg", "1") + end_blocks();
  const std::string archive = first + raw_file("b.jpg", std::string(600, 'x')) + end_blocks();
  for (size_t size = 0; size < archive.size(); ++size) {
    SCOPED_TRACE(size);
    const std::string cut = archive.substr(0, size);
    const Outcome mapped = read_mapped(cut, Archives::kConcatenated);
    // Behind a whole zero block the archive may properly end.
    const bool behind_zeros = size % kBlock == 0 && size > kBlock && all_zero(cut.substr(size - kBlock)) &&
                              (size <= first.size() || size > archive.size() - 2 * kBlock);
    EXPECT_EQ(mapped.error.has_value(), !behind_zeros);
    EXPECT_EQ(read_stream(cut, 100, Archives::kConcatenated).error.has_value(), !behind_zeros);
    EXPECT_EQ(read_feed(cut, 100, Archives::kConcatenated).error.has_value(), !behind_zeros);
  }
}

TEST(MemberReaderTest, StreamsGiveTheSameMembersHoweverTheBytesArrive) {
  const std::string archive = varied_archive();
  const Outcome whole = read_mapped(archive);
  for (const size_t step : {1, 7, 511, 512, 513, 4096, 100'000}) {
    const Outcome outcome = read_stream(archive, step);
    EXPECT_FALSE(outcome.error);
    EXPECT_EQ(outcome.members, whole.members) << step;
  }
}

TEST(MemberReaderTest, TheEndStaysTheEnd) {
  const std::string archive = raw_file("a.jpg", "1") + end_blocks();
  MappedWindow window(archive);
  MemberReader reader(window, "test.tar");
  EXPECT_NE(reader.next().take(), nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reader.next().take(), nullptr);
}

TEST(MemberReaderTest, GivesBytesThatAreStillInSight) {
  const std::string archive = raw_file("a.jpg", "hello") + raw_file("a.cls", "7") + end_blocks();
  StringSource source(archive);
  StreamWindow window(source);
  MemberReader reader(window, "test.tar");
  ASSERT_NE(reader.next_keeping(0).take(), nullptr);
  ASSERT_NE(reader.next_keeping(0).take(), nullptr);
  EXPECT_EQ(*reader.bytes(512, 5), "hello");
  EXPECT_EQ(reader.archive_name(), "test.tar");
}

TEST(MemberReaderTest, BytesBeyondTheEndAreAnError) {
  const std::string archive = raw_file("a.jpg", "hello") + end_blocks();
  MappedWindow window(archive);
  MemberReader reader(window, "test.tar");
  ASSERT_NE(reader.next().take(), nullptr);
  EXPECT_EQ(reader.bytes(512, 10'000).error().code(), Code::kTruncated);
}

TEST(MemberReaderTest, GivesLargeDataOfAStreamInPieces) {
  const std::string large(3'000'000, 'x');
  const std::string archive = raw_file("a.jpg", large) + end_blocks();
  StringSource source(archive, 100'000);
  StreamWindow window(source, 600'000);
  MemberReader reader(window, "test.tar");
  ASSERT_NE(reader.next().take(), nullptr);
  uint64_t size = 0;
  int pieces = 0;
  while (true) {
    const std::string_view piece = reader.next_piece().take();
    if (piece.empty()) break;
    size += piece.size();
    ++pieces;
  }
  EXPECT_EQ(size, large.size());
  EXPECT_GT(pieces, 3);
  EXPECT_EQ(reader.next().take(), nullptr);
}

TEST(MemberReaderTest, GoesOnAtAnotherHeaderBehindDamage) {
  std::string archive =
      raw_file("a.jpg", "1") + raw_file("b.jpg", "2") + raw_file("c.jpg", "3") + end_blocks();
  archive[1024] = 'X';
  MappedWindow window(archive);
  MemberReader reader(window, "test.tar");
  ASSERT_NE(reader.next().take(), nullptr);
  EXPECT_EQ(reader.next().error().code(), Code::kCorrupt);
  EXPECT_EQ(reader.offset(), 1024u);
  reader.jump(2048);
  EXPECT_EQ(reader.next().take()->name, "c.jpg");
  EXPECT_EQ(reader.next().take(), nullptr);
}

// An archive of two members, the first far larger than memory: its data is made as it is read.
class HugeSource final : public ByteSource {
 public:
  HugeSource(std::string before, uint64_t data, std::string after)
      : before_(std::move(before)), data_(data), after_(std::move(after)) {}

  Result<size_t> read_some(std::span<std::byte> into) override {
    const size_t size = std::min<uint64_t>(into.size(), room());
    if (at_ < before_.size()) {
      std::memcpy(into.data(), before_.data() + at_, size);
    } else if (at_ < before_.size() + data_) {
      std::memset(into.data(), 'x', size);
    } else {
      std::memcpy(into.data(), after_.data() + (at_ - before_.size() - data_), size);
    }
    at_ += size;
    return size;
  }
  Result<uint64_t> skip(uint64_t bytes) override {
    const uint64_t end = before_.size() + data_ + after_.size();
    const uint64_t skipped = std::min(bytes, end - at_);
    at_ += skipped;
    return skipped;
  }

 private:
  // Up to the end of the part we are in.
  uint64_t room() const {
    if (at_ < before_.size()) return before_.size() - at_;
    if (at_ < before_.size() + data_) return before_.size() + data_ - at_;
    return before_.size() + data_ + after_.size() - at_;
  }

  const std::string before_;
  const uint64_t data_;
  const std::string after_;
  uint64_t at_ = 0;
};

constexpr uint64_t kHuge = (uint64_t{9} << 30) + 512;

std::vector<std::string> huge_headers() {
  std::string base256(12, '\0');
  base256[0] = static_cast<char>(0x80);
  for (size_t i = 0; i < 8; ++i) base256[11 - i] = static_cast<char>(kHuge >> (8 * i));
  return {
      raw_member({.name = "huge.bin", .flavour = Flavour::kGnu, .size_field = base256}),
      pax_header(pax_record("size", std::to_string(kHuge))) + raw_member({.name = "huge.bin"}),
      raw_member({.name = "huge.bin", .size_field = octal(kHuge, 12)}),
      make_header({.name = "huge.bin", .size = kHuge}).take(),
  };
}

TEST(MemberReaderTest, PassesOverMembersAboveEightGibibytesInAStream) {
  for (const std::string& header : huge_headers()) {
    HugeSource source(header, kHuge, raw_file("b.jpg", "hello") + end_blocks());
    StreamWindow window(source);
    MemberReader reader(window, "test.tar");
    const Member* huge = reader.next().take();
    ASSERT_NE(huge, nullptr);
    EXPECT_EQ(huge->name, "huge.bin");
    EXPECT_EQ(huge->size, kHuge);
    EXPECT_EQ(reader.next_piece()->front(), 'x');
    const Member* small = reader.next().take();
    ASSERT_NE(small, nullptr);
    EXPECT_EQ(small->header_offset, header.size() + kHuge);
    EXPECT_EQ(*reader.next_piece(), "hello");
    EXPECT_EQ(reader.next().take(), nullptr);
  }
}

TEST(MemberReaderTest, AMemberAboveEightGibibytesThatIsCutIsAnError) {
  for (const std::string& header : huge_headers()) {
    HugeSource source(header, kHuge - 1000, "");
    StreamWindow window(source);
    MemberReader reader(window, "test.tar");
    ASSERT_NE(reader.next().take(), nullptr);
    const auto member = reader.next();
    ASSERT_FALSE(member);
    EXPECT_EQ(member.error().code(), Code::kTruncated);
    EXPECT_NE(member.error().message().find("1000 of its bytes are missing"), std::string::npos);
  }
}

// Any offset above 8 GiB behind a mapping that is not really there.
class HugeWindow final : public Window {
 public:
  HugeWindow(std::string before, uint64_t data, std::string after)
      : before_(std::move(before)), after_at_(before_.size() + data), after_(std::move(after)) {}

  Result<std::string_view> view(uint64_t, uint64_t at, uint64_t) override {
    if (at < before_.size()) return std::string_view(before_).substr(at);
    if (at < after_at_) return make_error(Code::kInvalid, "the data of the huge member is not wanted");
    return at - after_at_ < after_.size() ? std::string_view(after_).substr(at - after_at_)
                                          : std::string_view();
  }
  uint64_t end() const override { return after_at_ + after_.size(); }

 private:
  const std::string before_;
  const uint64_t after_at_;
  const std::string after_;
};

TEST(MemberReaderTest, NeverLooksAtTheDataOfAMappedMember) {
  for (const std::string& header : huge_headers()) {
    HugeWindow window(header, kHuge, raw_file("b.jpg", "hello") + end_blocks());
    MemberReader reader(window, "test.tar");
    EXPECT_EQ(reader.next().take()->size, kHuge);
    EXPECT_EQ(reader.next().take()->name, "b.jpg");
    EXPECT_EQ(reader.next().take(), nullptr);
  }
}

TEST(MemberReaderTest, PassesOnWhatTheSourceSaysWithTheNameOfTheArchive) {
  HugeWindow window(raw_file("a.jpg", ""), 1 << 20, "");
  MemberReader reader(window, "test.tar");
  ASSERT_NE(reader.next().take(), nullptr);
  const auto member = reader.next();
  ASSERT_FALSE(member);
  EXPECT_EQ(member.error().message(), "test.tar: the data of the huge member is not wanted");
}

}  // namespace
}  // namespace millrace::tar
