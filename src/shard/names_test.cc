// What shard names expand to, and what is refused.
#include "shard/names.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/testing/temporary_directory.h"

namespace millrace::shard {
namespace {

using Names = std::vector<std::string>;

Names expanded(std::string_view text) {
  auto names = expand_names(text);
  EXPECT_TRUE(names) << (names ? "" : names.error().message());
  return names ? *names : Names();
}

TEST(NamesTest, PlainNamesStayAsTheyAre) {
  EXPECT_EQ(expanded("a/b.tar"), (Names{"a/b.tar"}));
}

TEST(NamesTest, RangesKeepTheirPadding) {
  EXPECT_EQ(expanded("x-{008..011}.tar"), (Names{"x-008.tar", "x-009.tar", "x-010.tar", "x-011.tar"}));
  EXPECT_EQ(expanded("{8..10}"), (Names{"8", "9", "10"}));
  EXPECT_EQ(expanded("{0..1}"), (Names{"0", "1"}));
}

TEST(NamesTest, SeveralBracesMultiplyWithTheLastFastest) {
  EXPECT_EQ(expanded("{a,b}-{0..1}"), (Names{"a-0", "a-1", "b-0", "b-1"}));
}

TEST(NamesTest, CountsRunFromZeroWithTheSameWidth) {
  EXPECT_EQ(expanded("x-@003.tar"), (Names{"x-000.tar", "x-001.tar", "x-002.tar"}));
}

TEST(NamesTest, AnAtSignWithoutANumberIsALetter) {
  EXPECT_EQ(expanded("me@home.tar"), (Names{"me@home.tar"}));
}

TEST(NamesTest, UnionsKeepTheirOrder) {
  EXPECT_EQ(expanded("b.tar::a-{0..1}.tar"), (Names{"b.tar", "a-0.tar", "a-1.tar"}));
}

TEST(NamesTest, ATildeIsAHomeAndAFilesAddressItsPath) {
  const testing::TemporaryDirectory directory;
  ASSERT_EQ(::setenv("HOME", directory.path("home").c_str(), 1), 0);
  EXPECT_EQ(expanded("~/x-{0..1}.tar"),
            (Names{directory.path("home/x-0.tar"), directory.path("home/x-1.tar")}));
  EXPECT_EQ(expanded("~root/x.tar").front().back(), 'r');
  EXPECT_EQ(expanded("file:///data/x.tar::b~.tar"), (Names{"/data/x.tar", "b~.tar"}));
  EXPECT_EQ(OutputName::parse("~/o-%02d.tar")->at(3), directory.path("home/o-03.tar"));
  EXPECT_FALSE(expand_names("~nobody-is-called-so/x.tar"));
}

TEST(NamesTest, AddressesThatCannotBeOpenedSayWhatCanBeDone) {
  const auto told = [](std::string_view name) {
    const auto names = expand_names(name);
    EXPECT_FALSE(names) << name;
    return names ? "" : names.error().message() + "|" + names.error().hint();
  };
  EXPECT_NE(told("gs://b/x-{0..3}.tar").find("gs addresses are not opened here|Google's store speaks S3"),
            std::string::npos);
  EXPECT_NE(told("FTP://host/x.tar").find("pipe:curl"), std::string::npos);
  EXPECT_NE(told("a.tar::hdfs://host/x.tar").find("http://, https://, s3:// and mr://"), std::string::npos);
  EXPECT_NE(told("file://host/x.tar").find("file:///path"), std::string::npos);
  EXPECT_FALSE(OutputName::parse("gs://b/x-%06d.tar"));
}

TEST(NamesTest, AFileThatIsCalledSoIsMeantItself) {
  millrace::testing::TemporaryDirectory directory;
  ASSERT_TRUE(write_file_atomically(directory.path("x@2.tar"), "x"));
  EXPECT_EQ(expanded(directory.path("x@2.tar")), (Names{directory.path("x@2.tar")}));
}

TEST(NamesTest, TheLargestNumberEndsARange) {
  EXPECT_EQ(expanded("{18446744073709551615..18446744073709551615}"), (Names{"18446744073709551615"}));
}

TEST(NamesTest, GlobsFindFilesInNameOrder) {
  testing::TemporaryDirectory directory;
  for (const char* name : {"b.tar", "a.tar", "c.txt"})
    ASSERT_TRUE(write_file_atomically(directory.path(name), "x"));
  EXPECT_EQ(expanded(directory.path("*.tar")), (Names{directory.path("a.tar"), directory.path("b.tar")}));
}

TEST(NamesTest, AGlobThatFindsNothingIsAnError) {
  testing::TemporaryDirectory directory;
  const auto names = expand_names(directory.path("*.tar"));
  ASSERT_FALSE(names);
  EXPECT_EQ(names.error().code(), Code::kNotFound);
}

TEST(NamesTest, BadSpecificationsAreRefused) {
  for (const char* text :
       {"", "x-{0..", "x-{5..2}", "x-{a..c}", "x-{0..99999999}", "{0..9999}{0..9999}", "{0..}"}) {
    const auto names = expand_names(std::string_view(text));
    ASSERT_FALSE(names) << text;
    EXPECT_EQ(names.error().code(), Code::kInvalid) << text;
  }
}

TEST(OutputNameTest, PutsTheNumberInItsPlace) {
  const auto name = OutputName::parse("out-%06d.tar");
  ASSERT_TRUE(name);
  EXPECT_TRUE(name->numbered());
  EXPECT_EQ(name->at(7), "out-000007.tar");
  EXPECT_EQ(name->at(12345678), "out-12345678.tar");
}

TEST(OutputNameTest, AcceptsPlainNumbersAndDoubledPercentSigns) {
  EXPECT_EQ(OutputName::parse("a%d")->at(3), "a3");
  EXPECT_EQ(OutputName::parse("100%%-%d")->at(3), "100%-3");
  EXPECT_FALSE(OutputName::parse("a.tar")->numbered());
}

TEST(OutputNameTest, RefusesAnythingElseThatPrintfWouldDo) {
  for (const char* text : {"", "%s", "a-%d-%d", "%", "%06x", "%0999d", "%-5d", "%n"})
    EXPECT_FALSE(OutputName::parse(text)) << text;
}

}  // namespace
}  // namespace millrace::shard
