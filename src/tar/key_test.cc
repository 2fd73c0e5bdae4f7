// Keys and fields of names: WebDataset's rule to the letter, checked against its own regular expression.
#include "tar/key.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "base/random.h"

namespace millrace::tar {
namespace {

using Split = std::optional<std::pair<std::string, std::string>>;

Split split(std::string_view name, KeyRule rule = KeyRule::kFirstDot) {
  const std::optional<SplitName> found = split_name(name, rule);
  if (!found) return std::nullopt;
  return std::pair(std::string(found->key), std::string(found->field));
}

Split pair(std::string key, std::string field) {
  return std::pair(std::move(key), std::move(field));
}

TEST(FirstDotTest, SplitsAtTheFirstDotOfTheLastComponent) {
  EXPECT_EQ(split("a.jpg"), pair("a", "jpg"));
  EXPECT_EQ(split("d.e/a.b.jpg"), pair("d.e/a", "b.jpg"));
  EXPECT_EQ(split("x.tar.gz"), pair("x", "tar.gz"));
  EXPECT_EQ(split("train/000/a.seg.png"), pair("train/000/a", "seg.png"));
}

TEST(FirstDotTest, KeepsALeadingDotSlash) {
  EXPECT_EQ(split("./x.y"), pair("./x", "y"));
}

TEST(FirstDotTest, AFieldMayBeEmpty) {
  EXPECT_EQ(split("a."), pair("a", ""));
}

TEST(FirstDotTest, KeepsTheSpellingOfTheField) {
  EXPECT_EQ(split("a.JPG"), pair("a", "JPG"));
}

TEST(FirstDotTest, DropsNamesWithoutAKeyOrADot) {
  for (const char* name :
       {"", "noext", ".hidden", ".", "a.b/c", "a.b/", "dir/noext", "..", "./.x", "a.b/.hidden"}) {
    EXPECT_EQ(split(name), std::nullopt) << name;
  }
}

TEST(FirstDotTest, GivesHiddenFilesTheKeyOfTheirDirectoryAsWebDatasetDoes) {
  EXPECT_EQ(split("dir/.hidden"), pair("dir/", "hidden"));
  EXPECT_EQ(split("dir/._a.jpg"), pair("dir/", "_a.jpg"));
  EXPECT_EQ(split("x/y/.h"), pair("x/y/", "h"));
  EXPECT_EQ(split("//.x"), pair("//", "x"));
  EXPECT_EQ(split("/.x"), pair("/", "x"));
}

TEST(FirstDotTest, LooksAtTheNearestReachableComponentForHiddenFiles) {
  EXPECT_EQ(split("d.e/x/.h"), pair("d.e/x/", "h"));
  EXPECT_EQ(split("d.e/.h"), std::nullopt);
}

TEST(FirstDotTest, NewlinesCutTheWayToTheLastComponent) {
  EXPECT_EQ(split("a\nb/c.jpg"), pair("a\nb/c", "jpg"));
  EXPECT_EQ(split("a.x\nb/c.jpg"), std::nullopt);
  EXPECT_EQ(split("a.jpg\n"), pair("a", "jpg\n"));
}

// ECMAScript's dot also stops at \r and others; only \n is in the alphabet here, where both agree.
TEST(FirstDotTest, EqualsTheRegularExpressionOnRandomNames) {
  constexpr uint64_t kSeed = 1234;
  SCOPED_TRACE(kSeed);
  const std::regex expression(R"(^((?:.*/|)[^.]+)[.]([^/]*)$)", std::regex::ECMAScript);
  Random random(kSeed);
  constexpr std::string_view kAlphabet = "aB./\n";
  for (int i = 0; i < 20'000; ++i) {
    std::string name(random.below(10), '\0');
    for (char& c : name) c = kAlphabet[random.below(kAlphabet.size())];
    std::smatch match;
    const bool matches = std::regex_match(name, match, expression);
    const Split expected = matches ? pair(match[1], match[2]) : std::nullopt;
    EXPECT_EQ(split(name), expected) << ::testing::PrintToString(name);
  }
}

TEST(LastDotTest, SplitsAtTheLastDot) {
  EXPECT_EQ(split("a/b.seg.png", KeyRule::kLastDot), pair("a/b.seg", "png"));
  EXPECT_EQ(split("v1.2/x.jpg", KeyRule::kLastDot), pair("v1.2/x", "jpg"));
  EXPECT_EQ(split("a.", KeyRule::kLastDot), pair("a", ""));
  EXPECT_EQ(split(".a.jpg", KeyRule::kLastDot), pair(".a", "jpg"));
}

TEST(LastDotTest, DropsNamesWithoutAKeyOrADot) {
  for (const char* name : {"", "noext", ".hidden", "a.b/c", "dir/.hidden", "."}) {
    EXPECT_EQ(split(name, KeyRule::kLastDot), std::nullopt) << name;
  }
}

TEST(ArchiveMetadataTest, IsWhatStartsWithAComponentInDoubleUnderscores) {
  for (const char* name :
       {"__meta__/x.json", "__index__", "____", "____/a.b", "__a__\n", "__a__b__", "__a.b__"}) {
    EXPECT_TRUE(is_archive_metadata(name)) << name;
  }
}

TEST(ArchiveMetadataTest, IsNothingElse) {
  for (const char* name : {"", "__", "___", "__a", "a__", "__a__b", "__a__b/c", "x/__meta__/y.json", "__/x__",
                           "___/x", "__\n", "_meta_", "__a__.json", "__a__\n/x"}) {
    EXPECT_FALSE(is_archive_metadata(name)) << name;
  }
}

TEST(KeyRuleTest, NamesComeBackAsRules) {
  for (const KeyRule rule : {KeyRule::kFirstDot, KeyRule::kLastDot}) {
    EXPECT_EQ(*parse_key_rule(key_rule_name(rule)), rule);
  }
}

TEST(KeyRuleTest, RefusesAnyOtherName) {
  for (const char* text : {"", "first", "FIRST-DOT", "first-dot "}) {
    EXPECT_EQ(parse_key_rule(text).error().code(), Code::kInvalid) << text;
  }
}

}  // namespace
}  // namespace millrace::tar
