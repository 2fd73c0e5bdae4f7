// Tests that descriptions are read strictly and written so that they can be read again.
#include "transform/description.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace millrace::transform {
namespace {

std::string refusal(std::string_view text) {
  const auto parsed = parse_description(text);
  return parsed ? "it is fine" : parsed.error().message();
}

TEST(DescriptionTest, EveryKindIsReadAndWrittenTheSame) {
  for (
      const std::string_view text :
      {R"({"kind":"images","select":"jpg;jpeg=image cls","image":{"fields":"image","options":"size=224,layout=CHW"}})",
       R"({"kind":"images","image":{"to":"jpg","options":"size=32x16","quality":70},"keep":true})",
       R"({"kind":"images","image":{"options":"size=8","stack":4,"label":"cls"},"on_error":"skip"})",
       R"({"kind":"command","command":["convert","a b"],"many":true,"on_error":"keep"})",
       R"({"kind":"filter","command":["cat"],"limits":{"memory":104857600,"seconds":5}})",
       R"({"kind":"python","source":"def f(s): return s","function":"f","note":"why"})",
       R"({"kind":"service","url":"http://pod:80/x?y=1"})"}) {
    const auto first = parse_description(text);
    ASSERT_TRUE(first) << text << ": " << first.error().message();
    const std::string written = description_json(*first).dump();
    const auto second = parse_description(written);
    ASSERT_TRUE(second) << written << ": " << second.error().message();
    EXPECT_EQ(description_json(*second).dump(), written);
  }
}

TEST(DescriptionTest, WhatIsNotKnownIsNamed) {
  EXPECT_NE(refusal(R"({"kind":"images","select":"a","colour":1})").find("colour"), std::string::npos);
  EXPECT_NE(refusal(R"({"kind":"paint"})").find("paint"), std::string::npos);
  EXPECT_NE(refusal(R"({"kind":"images","image":{"sise":1}})").find("sise"), std::string::npos);
  EXPECT_NE(refusal(R"({"kind":"images","image":{"options":"sise=1"}})").find("sise"), std::string::npos);
  EXPECT_NE(refusal(R"({"kind":"filter","command":["cat"],"limits":{"disc":1}})").find("disc"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"kind":"filter","command":["cat"],"source":"x"})").find("source"), std::string::npos);
}

TEST(DescriptionTest, WhatMakesNoSenseIsRefused) {
  for (const std::string_view text :
       {"", "[]", "{}", R"({"kind":1})", R"({"kind":"images"})", R"({"kind":"images","image":[]})",
        R"({"kind":"images","image":{"options":"size=8,flip"}})",
        R"({"kind":"images","image":{"options":"size=8,dtype=float32","to":"png"}})",
        R"({"kind":"images","image":{"options":"size=8,channels=rgba","to":"jpg"}})",
        R"({"kind":"images","image":{"stack":4}})",
        R"({"kind":"images","image":{"options":"size=8","label":"cls"}})",
        R"({"kind":"filter","command":[]})", R"({"kind":"filter","command":["a\u0000b"]})",
        R"({"kind":"filter","command":["cat"],"on_error":"skip"})",
        R"({"kind":"python","source":"x","function":"f-g"})", R"({"kind":"python","function":"f"})",
        R"({"kind":"service","url":"https://x/"})", R"({"kind":"service"})",
        R"({"kind":"filter","command":["cat"],"limits":{"processes":0}})"}) {
    EXPECT_FALSE(parse_description(text)) << text;
  }
}

TEST(DescriptionTest, TheTagFollowsTheContentAndNotTheNote) {
  const auto tag = [](std::string_view text, uint64_t version) {
    return Registered{"x", version, parse_description(text).take()}.tag();
  };
  const std::string first = tag(R"({"kind":"images","select":"a"})", 1);
  EXPECT_EQ(first.substr(0, 3), "v1-");
  EXPECT_EQ(first, tag(R"({"kind":"images","select":"a","note":"n","keep":true})", 1));
  EXPECT_NE(first, tag(R"({"kind":"images","select":"b"})", 1));
  EXPECT_NE(first, tag(R"({"kind":"images","select":"a"})", 2));
}

TEST(DescriptionTest, NamesAreOnesThatFitIntoAnAddress) {
  for (const std::string_view name : {"a", "thumbs-224", "v1.2_x", "0"})
    EXPECT_TRUE(check_name(name)) << name;
  for (const std::string_view name : {"", "A", "-a", "a/b", "a b", "a%", "."})
    EXPECT_FALSE(check_name(name)) << name;
  EXPECT_FALSE(check_name(std::string(65, 'a')));
}

}  // namespace
}  // namespace millrace::transform
