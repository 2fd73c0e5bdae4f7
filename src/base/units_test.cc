// Sizes and counts: what parse_bytes takes and refuses, and how numbers are printed.
#include "base/units.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(ParseBytesTest, TakesPlainNumbers) {
  EXPECT_EQ(*parse_bytes("0"), 0u);
  EXPECT_EQ(*parse_bytes("512"), 512u);
  EXPECT_EQ(*parse_bytes("512B"), 512u);
}

TEST(ParseBytesTest, TellsDecimalFromBinary) {
  EXPECT_EQ(*parse_bytes("256M"), 256'000'000u);
  EXPECT_EQ(*parse_bytes("256MB"), 256'000'000u);
  EXPECT_EQ(*parse_bytes("256MiB"), 268'435'456u);
  EXPECT_EQ(*parse_bytes("256Mi"), 268'435'456u);
}

TEST(ParseBytesTest, KnowsEveryPrefix) {
  EXPECT_EQ(*parse_bytes("1k"), 1000u);
  EXPECT_EQ(*parse_bytes("1KB"), 1000u);
  EXPECT_EQ(*parse_bytes("1kiB"), 1024u);
  EXPECT_EQ(*parse_bytes("3GB"), 3'000'000'000u);
  EXPECT_EQ(*parse_bytes("1GiB"), uint64_t{1} << 30);
  EXPECT_EQ(*parse_bytes("2TiB"), uint64_t{2} << 40);
  EXPECT_EQ(*parse_bytes("1PB"), 1'000'000'000'000'000u);
  EXPECT_EQ(*parse_bytes("1PiB"), uint64_t{1} << 50);
}

TEST(ParseBytesTest, TakesFractions) {
  EXPECT_EQ(*parse_bytes("1.5GB"), 1'500'000'000u);
  EXPECT_EQ(*parse_bytes("0.5KiB"), 512u);
}

TEST(ParseBytesTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "MB", "GiB", "-1", "-5MB", "nan", "inf", "infinity", "ten", " 5", "+5"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code(), Code::kInvalid);
    EXPECT_NE(bytes.error().message().find(text), std::string::npos);
  }
}

TEST(ParseBytesTest, RefusesUnknownUnits) {
  for (const char* text :
       {"5X", "5mb", "5 MB", "5MBs", "5MiBB", "5bytes", "5iB", "5BB", "0x10", "5MB ", "5,5MB"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code(), Code::kInvalid);
    EXPECT_FALSE(bytes.error().hint().empty());
  }
}

TEST(ParseBytesTest, RefusesMoreThanAnyFileCanHold) {
  for (const char* text : {"1e30", "10000PB", "99999999999999999999999"}) {
    EXPECT_EQ(parse_bytes(text).error().code(), Code::kInvalid) << text;
  }
}

TEST(FormatBytesTest, PrintsOneDecimalAndTheNextUnitInTime) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.0 kB");
  EXPECT_EQ(format_bytes(1'200'000'000), "1.2 GB");
  EXPECT_EQ(format_bytes(999'949), "999.9 kB");
  EXPECT_EQ(format_bytes(999'950), "1.0 MB");
  EXPECT_EQ(format_bytes(5'000'000'000'000), "5.0 TB");
}

TEST(FormatBytesTest, EndsWithTheLargestUnitItKnows) {
  EXPECT_EQ(format_bytes(18'000'000'000'000'000'000u), "18000.0 PB");
}

TEST(FormatCountTest, SetsThousandsApart) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1 000");
  EXPECT_EQ(format_count(60'000), "60 000");
  EXPECT_EQ(format_count(1'234'567), "1 234 567");
}

TEST(ParseRateTest, TellsBytesFromBitsAndDecimalFromBinary) {
  EXPECT_EQ(*parse_rate("200MB/s"), 200'000'000u);
  EXPECT_EQ(*parse_rate("10Gb/s"), 1'250'000'000u);
  EXPECT_EQ(*parse_rate("8GiB/s"), uint64_t{8} << 30);
  EXPECT_EQ(*parse_rate("1Mib/s"), 131'072u);
  EXPECT_EQ(*parse_rate("0.5kB/s"), 500u);
}

TEST(ParseRateTest, RefusesWhatHasNoUnitOrNoTime) {
  for (const char* text : {"", "/s", "B/s", "200", "200MB", "200M/s", "200MBps", "200 MB/s", "200MB/m",
                           "-1MB/s", "1XB/s", "nanB/s"}) {
    const auto rate = parse_rate(text);
    ASSERT_FALSE(rate.has_value()) << text;
    EXPECT_NE(rate.error().hint().find("200MB/s"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace millrace
