// Headers of every kind that archives in the field have, read in all three ways at once: mapped, streamed and
// fed. Whatever one of them says the others must say too.
#include "tar/parser.h"

#include <gtest/gtest.h>

#include <string>

#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using namespace testing;

void expect_same(const Outcome& left, const Outcome& right) {
  EXPECT_EQ(left.members, right.members);
  ASSERT_EQ(left.error.has_value(), right.error.has_value());
  if (left.error) {
    EXPECT_EQ(left.error->message(), right.error->message());
    EXPECT_EQ(left.error->code(), right.error->code());
  }
}

Outcome read(const std::string& archive, Archives archives = Archives::kOne) {
  Outcome mapped = read_mapped(archive, archives);
  expect_same(mapped, read_stream(archive, 1000, archives));
  expect_same(mapped, read_feed(archive, archive.size() + 1, archives));
  expect_same(mapped, read_feed(archive, 100, archives));
  return mapped;
}

ReadMember read_only_member(const std::string& blocks) {
  Outcome outcome = read(blocks + end_blocks());
  EXPECT_FALSE(outcome.error) << outcome.error->message();
  EXPECT_EQ(outcome.members.size(), 1u);
  return outcome.members.empty() ? ReadMember{} : outcome.members[0];
}

void expect_error(const std::string& archive, Code code, std::string_view part,
                  Archives archives = Archives::kOne) {
  const Outcome outcome = read(archive, archives);
  ASSERT_TRUE(outcome.error) << "expected: " << part;
  EXPECT_EQ(outcome.error->code(), code);
  EXPECT_TRUE(outcome.error->message().starts_with("test.tar: ")) << outcome.error->message();
  EXPECT_NE(outcome.error->message().find(part), std::string::npos) << outcome.error->message();
}

TEST(ParserTest, ReadsPlainMembers) {
  const Outcome outcome = read(raw_file("a.jpg", "hello") + raw_file("a.cls", "") + end_blocks());
  ASSERT_FALSE(outcome.error);
  ASSERT_EQ(outcome.members.size(), 2u);
  EXPECT_EQ(outcome.members[0].name, "a.jpg");
  EXPECT_EQ(outcome.members[0].data, "hello");
  EXPECT_EQ(outcome.members[0].header_offset, 0u);
  EXPECT_EQ(outcome.members[0].data_offset, 512u);
  EXPECT_TRUE(outcome.members[0].is_file);
  EXPECT_TRUE(outcome.members[0].self_contained);
  EXPECT_EQ(outcome.members[1].name, "a.cls");
  EXPECT_EQ(outcome.members[1].size, 0u);
  EXPECT_EQ(outcome.members[1].header_offset, 1024u);
}

TEST(ParserTest, JoinsTheUstarPrefix) {
  EXPECT_EQ(read_only_member(raw_member({.name = "c.jpg", .prefix = "a/b"})).name, "a/b/c.jpg");
  const std::string name(100, 'n');
  const std::string prefix(155, 'p');
  EXPECT_EQ(read_only_member(raw_member({.name = name, .prefix = prefix})).name, prefix + "/" + name);
}

TEST(ParserTest, TakesNoPrefixFromGnuAndV7Headers) {
  for (const Flavour flavour : {Flavour::kGnu, Flavour::kV7}) {
    EXPECT_EQ(read_only_member(raw_member({.name = "c.jpg", .flavour = flavour, .prefix = "13371337"})).name,
              "c.jpg");
  }
}

TEST(ParserTest, ReadsV7Archives) {
  const ReadMember file = read_only_member(
      raw_member({.name = "a.jpg", .data = "abc", .type = kTypeOldFile, .flavour = Flavour::kV7}));
  EXPECT_TRUE(file.is_file);
  EXPECT_EQ(file.data, "abc");
}

TEST(ParserTest, AV7NameWithATrailingSlashIsADirectoryWithoutData) {
  const ReadMember directory = read_only_member(
      raw_member({.name = "a/", .type = kTypeOldFile, .flavour = Flavour::kV7, .size_field = "00000001000"}));
  EXPECT_TRUE(directory.is_directory);
  EXPECT_FALSE(directory.is_file);
  EXPECT_EQ(directory.size, 0u);
}

TEST(ParserTest, LinksDevicesAndDirectoriesHaveNoDataWhateverTheirSizeSays) {
  for (const char type : {kTypeHardLink, kTypeSymbolicLink, kTypeCharacterDevice, kTypeBlockDevice,
                          kTypeDirectory, kTypeFifo}) {
    const ReadMember member = read_only_member(
        raw_member({.name = "a.x", .type = type, .link = "b.x", .size_field = "00000010000"}));
    EXPECT_EQ(member.size, 0u) << type;
    EXPECT_FALSE(member.is_file);
    EXPECT_EQ(member.is_directory, type == kTypeDirectory);
    EXPECT_EQ(member.link, "b.x");
  }
}

TEST(ParserTest, ContiguousFilesAreFilesAndUnknownTypesAreNot) {
  EXPECT_TRUE(
      read_only_member(raw_member({.name = "a.x", .data = "abc", .type = kTypeContiguousFile})).is_file);
  const ReadMember unknown = read_only_member(raw_member({.name = "a.x", .data = "abc", .type = 'Z'}));
  EXPECT_FALSE(unknown.is_file);
  EXPECT_EQ(unknown.data, "abc");
}

TEST(ParserTest, PaxRecordsOverrideTheHeader) {
  const std::string records = pax_record("path", "a/very/long/name.jpg") + pax_record("linkpath", "target") +
                              pax_record("mtime", "1700000000.25") + pax_record("size", "3");
  const ReadMember member = read_only_member(
      pax_header(records) + raw_member({.name = "short", .data = "abc", .size_field = "00000000000"}));
  EXPECT_EQ(member.name, "a/very/long/name.jpg");
  EXPECT_EQ(member.link, "target");
  EXPECT_EQ(member.size, 3u);
  EXPECT_EQ(member.data, "abc");
  EXPECT_EQ(member.header_offset, 0u);
  EXPECT_EQ(member.data_offset, 3 * kBlock);
}

TEST(ParserTest, UnknownPaxRecordsAreKept) {
  const std::string records = pax_record("SCHILY.xattr.user.tag", "blue") + pax_record("comment", "hi");
  const ReadMember member = read_only_member(pax_header(records) + raw_file("a.x", "abc"));
  EXPECT_EQ(member.pax, (decltype(member.pax){{"SCHILY.xattr.user.tag", "blue"}, {"comment", "hi"}}));
  EXPECT_EQ(member.name, "a.x");
}

TEST(ParserTest, PaxRecordsActOnOneMemberOnly) {
  const Outcome outcome = read(pax_header(pax_record("path", "long.x")) + raw_file("short", "abc") +
                               raw_file("b.x", "d") + end_blocks());
  ASSERT_EQ(outcome.members.size(), 2u);
  EXPECT_EQ(outcome.members[0].name, "long.x");
  EXPECT_EQ(outcome.members[1].name, "b.x");
  EXPECT_TRUE(outcome.members[1].pax.empty());
}

TEST(ParserTest, TheLaterOfTwoPaxRecordsWins) {
  const std::string twice = pax_header(pax_record("path", "first") + pax_record("path", "second"));
  EXPECT_EQ(read_only_member(twice + raw_file("a", "")).name, "second");
  const std::string apart =
      pax_header(pax_record("path", "first")) + pax_header(pax_record("path", "second"));
  EXPECT_EQ(read_only_member(apart + raw_file("a", "")).name, "second");
}

TEST(ParserTest, AnEmptyPaxValueGivesTheHeaderItsWordBack) {
  EXPECT_EQ(read_only_member(pax_header(pax_record("path", "")) + raw_file("a", "")).name, "a");
  const std::string global = pax_header(pax_record("path", "everywhere"), kTypePaxGlobal);
  EXPECT_EQ(read_only_member(global + pax_header(pax_record("path", "")) + raw_file("a", "")).name, "a");
}

TEST(ParserTest, SolarisExtendedHeadersAreReadAsPax) {
  const std::string extended = pax_header(pax_record("path", "long.x"), kTypePaxSolaris);
  EXPECT_EQ(read_only_member(extended + raw_file("a", "")).name, "long.x");
}

TEST(ParserTest, GlobalPaxRecordsActOnAllThatFollowsAndSaySo) {
  const std::string global = pax_header(pax_record("linkpath", "everywhere"), kTypePaxGlobal);
  const Outcome outcome =
      read(raw_file("a.x", "1") + global + raw_file("b.x", "2") + pax_header(pax_record("linkpath", "own")) +
           raw_file("c.x", "3") + end_blocks());
  ASSERT_EQ(outcome.members.size(), 3u);
  EXPECT_EQ(outcome.members[0].link, "");
  EXPECT_TRUE(outcome.members[0].self_contained);
  EXPECT_EQ(outcome.members[1].link, "everywhere");
  EXPECT_FALSE(outcome.members[1].self_contained);
  EXPECT_EQ(outcome.members[2].link, "own");
  EXPECT_FALSE(outcome.members[2].self_contained);
}

TEST(ParserTest, GnuLongNamesAndLinksWinOverGlobalRecords) {
  const std::string global =
      pax_header(pax_record("path", "global") + pax_record("linkpath", "global"), kTypePaxGlobal);
  const ReadMember member =
      read_only_member(global + gnu_long("own") + gnu_long("own link", kTypeGnuLongLink) + raw_file("a", ""));
  EXPECT_EQ(member.name, "own");
  EXPECT_EQ(member.link, "own link");
}

TEST(ParserTest, ALaterGlobalRecordReplacesOrRemovesAnEarlierOne) {
  const auto global = [](const std::string& value) {
    return pax_header(pax_record("linkpath", value), kTypePaxGlobal);
  };
  const Outcome outcome = read(global("one") + raw_file("a.x", "") + global("two") + raw_file("b.x", "") +
                               global("") + raw_file("c.x", "") + end_blocks());
  ASSERT_EQ(outcome.members.size(), 3u);
  EXPECT_EQ(outcome.members[0].link, "one");
  EXPECT_EQ(outcome.members[1].link, "two");
  EXPECT_EQ(outcome.members[2].link, "");
  EXPECT_TRUE(outcome.members[2].self_contained);
}

TEST(ParserTest, AGlobalTimeHoldsUntilAMembersOwn) {
  const std::string archive = pax_header(pax_record("mtime", "77"), kTypePaxGlobal) + raw_file("a.x", "") +
                              pax_header(pax_record("mtime", "5")) + raw_file("b.x", "") + end_blocks();
  MappedWindow window(archive);
  MemberReader reader(window, "test.tar");
  EXPECT_EQ(reader.next().take()->mtime_seconds(), 77);
  EXPECT_EQ(reader.next().take()->mtime_seconds(), 5);
}

TEST(ParserTest, GlobalHeadersAloneAreAnEmptyArchive) {
  const std::string archive = pax_header(pax_record("comment", "0123"), kTypePaxGlobal) + end_blocks();
  MappedWindow window(archive);
  MemberReader reader(window, "test.tar");
  const auto member = reader.next();
  ASSERT_TRUE(member) << member.error().message();
  EXPECT_EQ(*member, nullptr);
}

TEST(ParserTest, DataBehindGlobalHeadersAndTheEndIsFoundInSmallReadsToo) {
  const std::string archive =
      pax_header(pax_record("comment", "0123"), kTypePaxGlobal) + end_blocks() + raw_file("a.x", "1");
  for (const size_t step : {1, 512, 1000, 100'000}) {
    StringSource source(archive, step);
    StreamWindow window(source);
    MemberReader reader(window, "test.tar");
    EXPECT_FALSE(reader.next()) << step;
  }
}

TEST(ParserTest, TheGlobalCommentOfGitChangesNothing) {
  const std::string global = pax_header(pax_record("comment", "0123456789abcdef"), kTypePaxGlobal);
  EXPECT_TRUE(read_only_member(global + raw_file("a.x", "1")).self_contained);
}

TEST(ParserTest, RefusesEndlessGlobalRecords) {
  std::string archive;
  for (int i = 0; i < 200; ++i) {
    std::string records;
    for (int j = 0; j < 50; ++j) records += pax_record(fmt::format("key{}.{}", i, j), "x");
    archive += pax_header(records, kTypePaxGlobal) + raw_file("a.x", "");
  }
  expect_error(archive + end_blocks(), Code::kTooLarge, "global");
}

TEST(ParserTest, ReadsGnuLongNamesAndLinks) {
  const std::string name = std::string(300, 'n') + ".jpg";
  const std::string link = std::string(400, 'l');
  const ReadMember member =
      read_only_member(gnu_long(link, kTypeGnuLongLink) + gnu_long(name) +
                       raw_member({.name = name.substr(0, 100), .data = "abc", .flavour = Flavour::kGnu}));
  EXPECT_EQ(member.name, name);
  EXPECT_EQ(member.link, link);
  EXPECT_EQ(member.data, "abc");
  EXPECT_TRUE(member.self_contained);
}

TEST(ParserTest, APaxPathWinsOverAGnuLongName) {
  EXPECT_EQ(
      read_only_member(gnu_long("gnu") + pax_header(pax_record("path", "pax")) + raw_file("a", "")).name,
      "pax");
  EXPECT_EQ(
      read_only_member(pax_header(pax_record("path", "pax")) + gnu_long("gnu") + raw_file("a", "")).name,
      "pax");
}

TEST(ParserTest, ReadsBase256Sizes) {
  const ReadMember member =
      read_only_member(raw_member({.name = "a.x",
                                   .data = "abc",
                                   .flavour = Flavour::kGnu,
                                   .size_field = std::string("\x80\0\0\0\0\0\0\0\0\0\0\x03", 12)}));
  EXPECT_EQ(member.data, "abc");
}

TEST(ParserTest, ReadsTimesAndPermissions) {
  const std::string archive = pax_header(pax_record("mtime", "1700000000.25")) + raw_file("a.x", "") +
                              raw_member({.name = "b.x", .mtime_field = "00000001750"}) +
                              pax_header(pax_record("mtime", "-5")) + raw_file("c.x", "") +
                              pax_header(pax_record("mtime", "1") + pax_record("mtime", "2")) +
                              raw_file("d.x", "") + end_blocks();
  MappedWindow window(archive);
  MemberReader reader(window, "test.tar");
  EXPECT_EQ(reader.next().take()->mtime_seconds(), 1700000000);
  const Member* second = reader.next().take();
  EXPECT_EQ(second->mtime_seconds(), 1000);
  EXPECT_EQ(second->permissions(), 0644u);
  EXPECT_EQ(reader.next().take()->mtime_seconds(), -5);
  EXPECT_EQ(reader.next().take()->mtime_seconds(), 2);
}

TEST(ParserTest, AChecksumThatDoesNotMatchIsAnErrorThatNamesTheByte) {
  std::string archive = raw_file("a.jpg", "hello") + raw_file("b.jpg", "hello") + end_blocks();
  archive[1024] = 'X';
  expect_error(archive, Code::kCorrupt, "header checksum does not match at byte 1024");
}

TEST(ParserTest, ImpossibleSizesAreErrors) {
  const std::string negative(12, '\xff');
  const std::string huge = "\x80" + std::string(2, '\0') + std::string(9, '\x7f');
  for (const std::string& size : {std::string("0000000000x"), negative, huge}) {
    expect_error(raw_member({.name = "a.x", .size_field = size}) + end_blocks(), Code::kCorrupt,
                 "impossible size");
  }
  expect_error(pax_header(pax_record("size", "99999999999999999999")) + raw_file("a.x", "") + end_blocks(),
               Code::kCorrupt, "is not a number");
  expect_error(pax_header(pax_record("size", "9223372036854775807")) + raw_file("a.x", "") + end_blocks(),
               Code::kCorrupt, "impossible size");
  expect_error(pax_header(pax_record("size", "12x")) + raw_file("a.x", "") + end_blocks(), Code::kCorrupt,
               "is not a number");
}

TEST(ParserTest, SparseMembersAreRefused) {
  expect_error(raw_member({.name = "a.x", .type = kTypeGnuSparse, .flavour = Flavour::kGnu}) + end_blocks(),
               Code::kUnsupported, "\"a.x\" at byte 0 is sparse");
  expect_error(pax_header(pax_record("GNU.sparse.major", "1")) + raw_file("b.x", "abc") + end_blocks(),
               Code::kUnsupported, "\"b.x\" at byte 0 is sparse");
  expect_error(
      pax_header(pax_record("GNU.sparse.major", "1"), kTypePaxGlobal) + raw_file("c.x", "abc") + end_blocks(),
      Code::kUnsupported, "\"c.x\" at byte 0 is sparse");
}

TEST(ParserTest, BadPaxRecordsAreErrorsThatNameTheHeader) {
  expect_error(raw_file("a.x", "1") + pax_header("nonsense") + raw_file("b.x", "") + end_blocks(),
               Code::kCorrupt, "extension header at byte 1024: pax record at byte 0 has no length");
}

TEST(ParserTest, RefusesExtensionHeadersAboveTheLimit) {
  const std::string size = octal(Parser::kMaxExtension + 1, 11);
  for (const char type : {kTypePax, kTypePaxGlobal, kTypeGnuLongName, kTypeGnuLongLink}) {
    expect_error(raw_member({.name = "x", .type = type, .size_field = size}) + end_blocks(), Code::kTooLarge,
                 "at byte 0");
  }
  expect_error(raw_member({.name = "x", .type = kTypePax, .size_field = std::string(12, '\xff')}),
               Code::kTooLarge, "at byte 0");
}

TEST(ParserTest, RefusesChainsOfExtensionHeadersAboveTheLimit) {
  std::string chain;
  while (chain.size() <= Parser::kMaxExtension) chain += gnu_long(std::string(100'000, 'n'));
  const Outcome outcome = read_mapped(chain + raw_file("a.x", "") + end_blocks());
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code(), Code::kTooLarge);
}

TEST(ParserTest, AnExtensionHeaderBeforeTheEndBlocksIsAnError) {
  expect_error(pax_header(pax_record("path", "a")) + end_blocks(), Code::kCorrupt, "checksum does not match");
}

TEST(ParserTest, ErrorsShowStrangeNamesSafely) {
  expect_error(raw_member({.name = "a\x1b[31m\n", .type = kTypeGnuSparse}) + end_blocks(), Code::kUnsupported,
               "a\\x1b[31m\\x0a");
}

TEST(ParserTest, StopsAtTwoZeroBlocksAndTakesZerosBehindThem) {
  const Outcome outcome = read(raw_file("a.x", "1") + std::string(10240, '\0'));
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(outcome.members.size(), 1u);
  EXPECT_FALSE(read(raw_file("a.x", "1") + std::string(1100, '\0')).error);
}

TEST(ParserTest, AnArchiveOfNothingButItsEndIsEmpty) {
  const Outcome outcome = read(end_blocks());
  EXPECT_FALSE(outcome.error);
  EXPECT_TRUE(outcome.members.empty());
}

TEST(ParserTest, NoBytesAtAllAreNoArchive) {
  expect_error("", Code::kTruncated, "without end blocks");
}

TEST(ParserTest, MissingEndBlocksAreAnErrorAfterEveryMember) {
  const Outcome outcome = read(raw_file("a.x", "1") + raw_file("b.x", "2"));
  EXPECT_EQ(outcome.members.size(), 2u);
  expect_error(raw_file("a.x", "1"), Code::kTruncated, "ends at byte 1024 without end blocks");
}

TEST(ParserTest, ALoneZeroBlockIsAnError) {
  const std::string zero(kBlock, '\0');
  expect_error(raw_file("a.x", "1") + zero, Code::kTruncated, "at byte 1024");
  expect_error(raw_file("a.x", "1") + zero + raw_file("b.x", "2") + end_blocks(), Code::kCorrupt,
               "a single zero block at byte 1024");
}

TEST(ParserTest, DataBehindTheEndIsAnErrorAfterEveryMember) {
  const std::string archive = raw_file("a.x", "1") + end_blocks();
  expect_error(archive + "garbage", Code::kCorrupt, "more data follows the end");
  expect_error(archive + archive, Code::kCorrupt, "more data follows the end");
  expect_error(archive + std::string(9000, '\0') + "x", Code::kCorrupt, "more data follows the end");
  EXPECT_EQ(read(archive + "garbage").members.size(), 1u);
}

TEST(ParserTest, ReadsArchivesOneBehindTheOtherWhenAsked) {
  const std::string one = raw_file("a.x", "1") + end_blocks();
  const std::string two = raw_file("b.x", "2") + std::string(10240, '\0');
  const Outcome outcome = read(one + two + one, Archives::kConcatenated);
  ASSERT_FALSE(outcome.error) << outcome.error->message();
  ASSERT_EQ(outcome.members.size(), 3u);
  EXPECT_EQ(outcome.members[2].header_offset, one.size() + two.size());
}

TEST(ParserTest, ConcatenatedArchivesStillNeedAnEnd) {
  const std::string one = raw_file("a.x", "1") + end_blocks();
  expect_error(one + raw_file("b.x", "2"), Code::kTruncated, "without end blocks", Archives::kConcatenated);
  expect_error("", Code::kTruncated, "without end blocks", Archives::kConcatenated);
  expect_error(one + "garbage", Code::kTruncated, "cut inside the header", Archives::kConcatenated);
  EXPECT_FALSE(read(raw_file("a.x", "1") + std::string(kBlock, '\0') + one, Archives::kConcatenated).error);
}

}  // namespace
}  // namespace millrace::tar
