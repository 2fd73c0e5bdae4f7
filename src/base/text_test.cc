// Text: lower case without a locale, and names printed so that they cannot drive a terminal.
#include "base/text.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using namespace std::literals;

TEST(LowerCaseTest, ChangesAsciiLettersOnly) {
  EXPECT_EQ(lower_case("Seg.PNG"), "seg.png");
  EXPECT_EQ(lower_case("@[`{09_"), "@[`{09_");
  EXPECT_EQ(lower_case("GRÖSSE"), "grÖsse");
  EXPECT_EQ(lower_case(""), "");
}

TEST(PrintableTest, KeepsOrdinaryTextAndUtf8) {
  EXPECT_EQ(printable("a/b c.日本.jpg"), "a/b c.日本.jpg");
}

TEST(PrintableTest, ShowsControlCharactersAsHex) {
  EXPECT_EQ(printable("a\x1b[31m\n\0b\x7f"sv), "a\\x1b[31m\\x0a\\x00b\\x7f");
}

TEST(PrintableTest, CutsLongNames) {
  EXPECT_EQ(printable("abcdef", 3), "abc");
  EXPECT_EQ(printable(std::string(5000, 'x')).size(), 4096u);
}

}  // namespace
}  // namespace millrace
