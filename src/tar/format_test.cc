// Header fields: numbers in octal and base-256, text with and without its NUL, and both checksums.
#include "tar/format.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using testing::octal;
using testing::raw_header;
using testing::RawMember;

std::optional<int64_t> number(const std::string& field) {
  return number_field(field.data(), field.size());
}

std::string base256(int64_t value, size_t width) {
  std::string field(width, '\0');
  for (size_t i = width; i-- > 0; value >>= 8) field[i] = static_cast<char>(value);
  field[0] = static_cast<char>(field[0] | 0x80);
  return field;
}

TEST(PaddedTest, RoundsUpToWholeBlocks) {
  EXPECT_EQ(padded(0), 0u);
  EXPECT_EQ(padded(1), 512u);
  EXPECT_EQ(padded(512), 512u);
  EXPECT_EQ(padded(513), 1024u);
}

TEST(TextFieldTest, EndsAtItsNulOrItsWidth) {
  EXPECT_EQ(text_field("abc\0def", 7), "abc");
  EXPECT_EQ(text_field("abcdefg", 7), "abcdefg");
  EXPECT_EQ(text_field("\0bc", 3), "");
}

TEST(NumberFieldTest, ReadsOctalHoweverItIsPadded) {
  EXPECT_EQ(number("00000001750\0"), 1000);
  EXPECT_EQ(number(std::string("0001750\0", 8)), 1000);
  EXPECT_EQ(number("   1750 "), 1000);
  EXPECT_EQ(number(std::string("1750\0\0\0\0", 8)), 1000);
  EXPECT_EQ(number("777777777777"), (int64_t{1} << 36) - 1);
}

TEST(NumberFieldTest, AnEmptyFieldIsZero) {
  EXPECT_EQ(number(std::string(12, '\0')), 0);
  EXPECT_EQ(number(std::string(12, ' ')), 0);
}

TEST(NumberFieldTest, RefusesWhatIsNoOctal) {
  for (const char* text : {"00000000009", "0000000000x", "-0000000001", "12a", "0x1"}) {
    EXPECT_EQ(number(text), std::nullopt) << text;
  }
}

TEST(NumberFieldTest, ReadsBase256) {
  for (const int64_t value : {int64_t{0}, int64_t{1}, int64_t{1} << 33, (int64_t{10} << 30) + 5,
                              int64_t{1} << 62, INT64_MAX, int64_t{-1}, int64_t{-1000}, INT64_MIN}) {
    EXPECT_EQ(number(base256(value, 12)), value);
  }
  EXPECT_EQ(number(base256(12345, 8)), 12345);
}

TEST(NumberFieldTest, RefusesBase256BeyondSixtyFourBits) {
  std::string field(12, '\0');
  field[0] = static_cast<char>(0x80);
  field[3] = 1;
  EXPECT_EQ(number(field), std::nullopt);
  field[3] = 0;
  field[4] = static_cast<char>(0x80);  // 2^63
  EXPECT_EQ(number(field), std::nullopt);
}

TEST(ChecksumTest, MatchesAHeaderAndNotOneThatChangedAnywhere) {
  Header header = raw_header({.name = "a/b.jpg", .data = "hello"});
  ASSERT_TRUE(checksum_matches(header));
  char* bytes = reinterpret_cast<char*>(&header);
  for (size_t i = 0; i < kBlock; ++i) {
    const size_t checksum_at = offsetof(Header, checksum);
    // Behind its terminator the checksum field may say what it likes.
    if (i == checksum_at + 7) continue;
    bytes[i] = static_cast<char>(bytes[i] ^ 1);
    EXPECT_FALSE(checksum_matches(header)) << "byte " << i;
    bytes[i] = static_cast<char>(bytes[i] ^ 1);
  }
  EXPECT_TRUE(checksum_matches(header));
}

TEST(ChecksumTest, EqualsTheSumByteByByte) {
  constexpr uint64_t kSeed = 17;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (int i = 0; i < 200; ++i) {
    Header header;
    for (size_t at = 0; at < kBlock; ++at)
      reinterpret_cast<char*>(&header)[at] = static_cast<char>(random.next());
    testing::seal(header);
    EXPECT_TRUE(checksum_matches(header));
    EXPECT_EQ(octal(checksum_of(header), 6), text_field(header.checksum, sizeof header.checksum));
  }
}

TEST(ChecksumTest, TakesTheSignedSumOfHistoricWriters) {
  Header header = raw_header({.name = "caf\xc3\xa9.txt"});
  std::memset(header.checksum, ' ', sizeof header.checksum);
  int64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += reinterpret_cast<const signed char*>(&header)[i];
  std::memcpy(header.checksum, (octal(static_cast<uint64_t>(sum), 6) + '\0' + ' ').data(), 8);
  EXPECT_NE(static_cast<uint32_t>(sum), checksum_of(header));
  EXPECT_TRUE(checksum_matches(header));
}

TEST(ChecksumTest, RefusesAChecksumThatIsNoNumber) {
  Header header = raw_header({.name = "a"});
  std::memcpy(header.checksum, "abcdefgh", 8);
  EXPECT_FALSE(checksum_matches(header));
}

TEST(AllZeroTest, SeesAnyOtherByte) {
  EXPECT_TRUE(all_zero(""));
  std::string bytes(600, '\0');
  EXPECT_TRUE(all_zero(bytes));
  for (const size_t at : {0, 1, 299, 599}) {
    bytes[at] = 1;
    EXPECT_FALSE(all_zero(bytes)) << at;
    bytes[at] = 0;
  }
}

}  // namespace
}  // namespace millrace::tar
