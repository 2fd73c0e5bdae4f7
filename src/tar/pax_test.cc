// pax records: reading every well-formed one, refusing the rest, and writing lengths that count themselves.
#include "tar/pax.h"

#include <gtest/gtest.h>

#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using namespace std::literals;

TEST(ParsePaxTest, ReadsRecordsInOrder) {
  const auto records = parse_pax("12 path=abc\n15 mtime=12345\n");
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ((*records)[0].key, "path");
  EXPECT_EQ((*records)[0].value, "abc");
  EXPECT_EQ((*records)[1].key, "mtime");
  EXPECT_EQ((*records)[1].value, "12345");
}

TEST(ParsePaxTest, NothingIsNoRecords) {
  EXPECT_TRUE(parse_pax("")->empty());
}

TEST(ParsePaxTest, ValuesMayHoldNewlinesEqualsSignsAndNuls) {
  const std::string value = "a\nb=c\0d"s;
  const std::string text = testing::pax_record("comment", value);
  const auto records = parse_pax(text);
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ((*records)[0].value, value);
}

TEST(ParsePaxTest, ValuesMayBeEmpty) {
  const auto records = parse_pax("5 a=\n");
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ((*records)[0].value, "");
}

TEST(ParsePaxTest, IgnoresNulsBehindTheRecords) {
  EXPECT_EQ(parse_pax("12 path=abc\n\0\0\0"sv)->size(), 1u);
}

TEST(ParsePaxTest, RefusesWhatIsNoRecord) {
  for (const std::string_view text :
       {"x"sv, " 12 path=abc\n"sv, "path=abc\n"sv, "12"sv, "12 "sv, "13 path=abc\n"sv, "11 path=abc\n"sv,
        "0 path=abc\n"sv, "12:path=abc\n"sv, "12 path=abcd"sv, "9 pathabc\n"sv, "9 =abcde\n"sv, "-5 a=\n"sv,
        "3 \n"sv, "4 =\n"sv, "99999999999999999999999 a=b\n"sv, "18446744073709551615 a=b\n"sv}) {
    const auto records = parse_pax(text);
    ASSERT_FALSE(records) << text;
    EXPECT_EQ(records.error().code(), Code::kCorrupt);
  }
}

TEST(ParsePaxTest, SaysWhereTheBadRecordIs) {
  const auto records = parse_pax("12 path=abc\n99 mtime=1\n");
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().message(), "pax record at byte 12 is longer than its block");
}

TEST(ParsePaxTest, RefusesRecordsCutAnywhere) {
  const std::string text = testing::pax_record("path", "some/name.jpg");
  for (size_t size = 1; size < text.size(); ++size) EXPECT_FALSE(parse_pax(text.substr(0, size))) << size;
}

TEST(AppendPaxTest, LengthsCountThemselvesAtEverySize) {
  for (size_t size = 0; size < 1100; ++size) {
    std::string text;
    append_pax(text, "path", std::string(size, 'x'));
    EXPECT_EQ(text, testing::pax_record("path", std::string(size, 'x')));
    const auto records = parse_pax(text);
    ASSERT_TRUE(records) << size;
    ASSERT_EQ(records->size(), 1u);
    EXPECT_EQ((*records)[0].value.size(), size);
  }
}

TEST(AppendPaxTest, AppendsBehindWhatIsThere) {
  std::string text;
  append_pax(text, "path", "a");
  append_pax(text, "size", "12");
  EXPECT_EQ(text, "9 path=a\n11 size=12\n");
}

}  // namespace
}  // namespace millrace::tar
