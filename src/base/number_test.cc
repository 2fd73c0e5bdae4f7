// Tests which texts are numbers and which are not.
#include "base/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace millrace {
namespace {

TEST(NumberTest, TakesAllThatTheTypeHolds) {
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parse_number<int64_t>("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parse_number<uint16_t>("65535"), 65535);
  EXPECT_EQ(parse_number<double>("0.25"), 0.25);
  EXPECT_EQ(parse_number<double>("-1e3"), -1000.0);
}

TEST(NumberTest, RefusesWhatTheTypeCannotHold) {
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_number<uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(parse_number<uint32_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1e999"), std::nullopt);
}

TEST(NumberTest, RefusesBlanksSignsAndAnythingBehind) {
  for (const char* text : {"", " 1", "1 ", "+1", "1,000", "0x10", "1\n", "one", "-", "1.0"})
    EXPECT_EQ(parse_number<uint64_t>(text), std::nullopt) << "\"" << text << "\"";
  for (const char* text : {"", " 1", "+1", "0.5s", "nan", "-nan", "."})
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << "\"" << text << "\"";
}

TEST(NumberTest, ReadsHexWithoutPrefix) {
  EXPECT_EQ(parse_number<uint64_t>("00ff", 16), 255U);
  EXPECT_EQ(parse_number<uint64_t>("0xff", 16), std::nullopt);
}

TEST(NumberTest, InfinityIsANumber) {
  const auto infinite = parse_number<double>("inf");
  ASSERT_TRUE(infinite);
  EXPECT_TRUE(std::isinf(*infinite));
}

TEST(NumberTest, TakingLeavesWhatFollows) {
  std::string_view text = "27 path=x";
  EXPECT_EQ(take_number<uint64_t>(text), 27U);
  EXPECT_EQ(text, " path=x");
  EXPECT_EQ(take_number<uint64_t>(text), std::nullopt);
  EXPECT_EQ(text, " path=x");
}

}  // namespace
}  // namespace millrace
