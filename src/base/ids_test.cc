// make_id: shape and difference.
#include "base/ids.h"

#include <gtest/gtest.h>

#include <set>

namespace millrace {
namespace {

TEST(MakeIdTest, IsSixteenLowerCaseHexDigits) {
  for (int i = 0; i < 100; ++i) {
    const std::string id = make_id();
    EXPECT_EQ(id.size(), 16u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  }
}

TEST(MakeIdTest, NeverRepeats) {
  std::set<std::string> seen;
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(seen.insert(make_id()).second);
}

}  // namespace
}  // namespace millrace
