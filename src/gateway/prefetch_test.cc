// What a prefetch may ask for.
#include "gateway/prefetch.h"

#include <gtest/gtest.h>

namespace millrace::gateway {
namespace {

TEST(PrefetchTest, ReadsTheKeysInTheirOrder) {
  const auto keys = parse_prefetch(R"({"keys": ["b.tar", "a.tar"]})");
  ASSERT_TRUE(keys);
  EXPECT_EQ(*keys, (std::vector<std::string>{"b.tar", "a.tar"}));
  EXPECT_TRUE(parse_prefetch(R"({"keys": []})")->empty());
}

TEST(PrefetchTest, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"", "[]", "{}", R"({"keys": "a"})", R"({"keys": [1]})", R"({"keys": [""]})",
                           R"({"keys": ["a"], "soon": true})", R"({"keys": ["a\u0000b"]})"}) {
    EXPECT_EQ(parse_prefetch(text).error().code(), Code::kInvalid) << text;
  }
}

TEST(PrefetchTest, RefusesMoreKeysThanOneRequestMayName) {
  std::string text = R"({"keys": ["a")";
  for (size_t i = 0; i < kMaxPrefetchKeys; ++i) text += R"(, "a")";
  EXPECT_FALSE(parse_prefetch(text + "]}"));
}

}  // namespace
}  // namespace millrace::gateway
