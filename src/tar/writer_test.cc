// Writer: what it writes every reader reads back, byte for byte the same every time.
#include "tar/writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using namespace testing;
using namespace std::literals;

std::string write(const std::vector<std::pair<std::string, std::string>>& files) {
  StringSink sink;
  Writer writer(sink);
  for (const auto& [name, bytes] : files) {
    const Status status = writer.add({.name = name, .size = bytes.size()}, bytes);
    EXPECT_TRUE(status) << status.error().message();
    EXPECT_EQ(writer.offset(), sink.bytes.size());
  }
  EXPECT_TRUE(writer.finish());
  EXPECT_TRUE(sink.finished);
  EXPECT_EQ(writer.offset(), sink.bytes.size());
  return sink.bytes;
}

void expect_round_trip(const std::string& name, const std::string& bytes) {
  const Outcome outcome = read_mapped(write({{name, bytes}, {"behind.x", "y"}}));
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  ASSERT_EQ(outcome.members.size(), 2u);
  EXPECT_EQ(outcome.members[0].name, name);
  EXPECT_TRUE(outcome.members[0].data == bytes);
  EXPECT_TRUE(outcome.members[0].is_file);
  EXPECT_EQ(outcome.members[1].name, "behind.x");
}

bool uses_pax(const std::string& name) {
  return make_header({.name = name})->size() > kBlock;
}

std::string name_of_size(size_t size, size_t slash_at) {
  std::string name(size, 'n');
  name[slash_at] = '/';
  return name;
}

TEST(WriterTest, RoundTripsDataOfEverySizeAroundABlock) {
  for (const size_t size : {0, 1, 511, 512, 513, 1023, 1024, 1025, 100'000})
    expect_round_trip("a.jpg", std::string(size, 'd'));
}

TEST(WriterTest, RoundTripsNamesOfEveryLength) {
  for (size_t size = 1; size <= 300; ++size) {
    SCOPED_TRACE(size);
    expect_round_trip(std::string(size, 'n'), "x");
    for (size_t slash = 0; slash < size; slash += 7) expect_round_trip(name_of_size(size, slash), "x");
  }
}

TEST(WriterTest, ANameOfOneHundredBytesFitsTheHeader) {
  EXPECT_FALSE(uses_pax(std::string(100, 'n')));
  EXPECT_TRUE(uses_pax(std::string(101, 'n')));
}

TEST(WriterTest, ANameOfUpTo256BytesFitsWithThePrefix) {
  EXPECT_FALSE(uses_pax(name_of_size(101, 50)));
  EXPECT_FALSE(uses_pax(name_of_size(155, 100)));
  EXPECT_FALSE(uses_pax(name_of_size(255, 154)));
  EXPECT_FALSE(uses_pax(name_of_size(255, 155)));
  EXPECT_FALSE(uses_pax(name_of_size(256, 155)));
  EXPECT_TRUE(uses_pax(name_of_size(257, 155)));
  EXPECT_TRUE(uses_pax(name_of_size(256, 154)));
  EXPECT_TRUE(uses_pax(name_of_size(256, 156)));
  EXPECT_TRUE(uses_pax(std::string(255, 'n')));
}

TEST(WriterTest, ASlashAtEitherEndOfALongNameSplitsNothing) {
  EXPECT_TRUE(uses_pax(name_of_size(101, 0)));
  EXPECT_TRUE(uses_pax(name_of_size(101, 100)));
}

TEST(WriterTest, RoundTripsUtf8AndOtherBytes) {
  expect_round_trip("größe/日本語.jpg", "x");
  expect_round_trip("größe/" + std::string(90, 'a') + "日本語日本語日本語.jpg", "x");
  expect_round_trip("\xff\xfe latin.jpg", "x");
  expect_round_trip("with space\tand\nnewline=1.jpg", "x");
  expect_round_trip(std::string(200, '=') + "\n.jpg", "x");
  expect_round_trip("a//b/" + std::string(110, 'c'), "x");
}

TEST(WriterTest, RoundTripsRandomNames) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string name(1 + random.below(400), '\0');
    for (char& c : name) c = random.below(10) == 0 ? '/' : static_cast<char>(1 + random.below(255));
    expect_round_trip(name, "x");
  }
}

TEST(WriterTest, RefusesNamesThatNoArchiveCanHold) {
  EXPECT_EQ(make_header({.name = ""}).error().code(), Code::kInvalid);
  EXPECT_EQ(make_header({.name = "a\0b"sv}).error().code(), Code::kInvalid);
  StringSink sink;
  Writer writer(sink);
  EXPECT_FALSE(writer.add({.name = ""}, ""));
  EXPECT_FALSE(writer.begin({.name = ""}));
  EXPECT_TRUE(sink.bytes.empty());
}

TEST(WriterTest, SizesAboveEightGibibytesGoIntoAPaxRecord) {
  const uint64_t octal_limit = (uint64_t{1} << 33) - 1;
  EXPECT_EQ(make_header({.name = "a.x", .size = octal_limit})->size(), kBlock);
  for (const uint64_t size : {octal_limit, octal_limit + 1, uint64_t{1} << 40}) {
    const std::string header = make_header({.name = "a.x", .size = size}).take();
    Parser parser(Archives::kOne);
    ASSERT_EQ(*parser.step(header), Parser::Found::kMember);
    EXPECT_EQ(parser.member().size, size);
    EXPECT_EQ(parser.member().name, "a.x");
  }
}

TEST(WriterTest, KeepsModeAndTimeHoweverFarAway) {
  for (const int64_t mtime : {int64_t{0}, int64_t{1'700'000'000}, (int64_t{1} << 33) - 1, int64_t{1} << 33,
                              INT64_MAX, int64_t{-1}, INT64_MIN}) {
    const std::string header = make_header({.name = "a.x", .mode = 0100755, .mtime = mtime}).take();
    Parser parser(Archives::kOne);
    ASSERT_EQ(*parser.step(header), Parser::Found::kMember);
    EXPECT_EQ(parser.member().mtime_seconds(), mtime);
    EXPECT_EQ(parser.member().permissions(), 0755u);
  }
}

TEST(WriterTest, WritesTheSameBytesForTheSameInputForEver) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.jpg", "hello"},
      {std::string(200, 'n') + ".jpg", std::string(513, 'x')},
      {"d/" + std::string(120, 'e'), ""}};
  const std::string archive = write(files);
  EXPECT_EQ(archive, write(files));
  EXPECT_EQ(archive.size(), 12 * kBlock);
  EXPECT_EQ(hash64(archive), 10678081145828933268u);
}

TEST(WriterTest, WritesPiecesLikeTheWhole) {
  const std::string bytes(1300, 'x');
  StringSink sink;
  Writer writer(sink);
  ASSERT_TRUE(writer.begin({.name = "a.jpg", .size = bytes.size()}));
  ASSERT_TRUE(writer.data(bytes.substr(0, 1)));
  ASSERT_TRUE(writer.data(""));
  ASSERT_TRUE(writer.data(bytes.substr(1)));
  ASSERT_TRUE(writer.end());
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(sink.bytes, write({{"a.jpg", bytes}}));
}

TEST(WriterTest, CopiesMembersAsTheyLie) {
  const std::string blocks = pax_header(pax_record("comment", "kept")) + raw_file("a.jpg", "hello");
  StringSink sink;
  Writer writer(sink);
  ASSERT_TRUE(writer.copy(blocks));
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(sink.bytes, blocks + end_blocks());
}

TEST(WriterTest, AnEmptyArchiveIsItsEndBlocks) {
  EXPECT_EQ(write({}), end_blocks());
}

class FullSink final : public ByteSink {
 public:
  using ByteSink::write;
  Status write(std::string_view) override { return make_error(Code::kNoSpace, "full"); }
  Status finish() override { return make_error(Code::kNoSpace, "full"); }
};

TEST(WriterTest, PassesErrorsOfItsSinkOn) {
  FullSink sink;
  Writer writer(sink);
  EXPECT_EQ(writer.add({.name = "a", .size = 1}, "x").error().code(), Code::kNoSpace);
  EXPECT_EQ(writer.begin({.name = "a", .size = 1}).error().code(), Code::kNoSpace);
  EXPECT_EQ(writer.copy(end_blocks()).error().code(), Code::kNoSpace);
  EXPECT_EQ(writer.finish().error().code(), Code::kNoSpace);
}

TEST(WriterDeathTest, DataThatIsNotWhatWasAnnouncedIsABug) {
  StringSink sink;
  Writer writer(sink);
  EXPECT_DEATH(static_cast<void>(writer.add({.name = "a", .size = 2}, "x")), "entry.size == bytes.size");
  ASSERT_TRUE(writer.begin({.name = "a", .size = 2}));
  EXPECT_DEATH(static_cast<void>(writer.data("xyz")), "bytes.size");
  EXPECT_DEATH(static_cast<void>(writer.end()), "data_left_ == 0");
  EXPECT_DEATH(static_cast<void>(writer.copy("xyz")), "kBlock == 0");
}

}  // namespace
}  // namespace millrace::tar
