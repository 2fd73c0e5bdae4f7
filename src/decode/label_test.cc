// Numbers as Python's int() reads them.
#include "decode/label.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace::decode {
namespace {

TEST(LabelTest, ReadsWhatPythonReads) {
  const std::vector<std::pair<std::string, int64_t>> good{{"7", 7},
                                                          {" 42\n", 42},
                                                          {"-3", -3},
                                                          {"+5\r\n", 5},
                                                          {"0007", 7},
                                                          {"1_000", 1000},
                                                          {"\t0 ", 0},
                                                          {"-0", 0},
                                                          {"9223372036854775807", INT64_MAX},
                                                          {"-9223372036854775808", INT64_MIN}};
  for (const auto& [text, value] : good) {
    const auto label = parse_label(text);
    ASSERT_TRUE(label) << text;
    EXPECT_EQ(*label, value);
  }
}

TEST(LabelTest, RefusesWhatPythonRefuses) {
  for (const std::string text :
       {"", " ", "-", "+-1", "1.0", "1e3", "0x10", "1__0", "_1", "1_", "1 2", "cat", "- 1"}) {
    const auto label = parse_label(text);
    ASSERT_FALSE(label) << text;
    EXPECT_EQ(label.error().code(), Code::kCorrupt);
  }
  EXPECT_EQ(parse_label("9223372036854775808").error().code(), Code::kTooLarge);
  EXPECT_EQ(parse_label("-9223372036854775809").error().code(), Code::kTooLarge);
}

}  // namespace
}  // namespace millrace::decode
