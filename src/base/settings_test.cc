// Settings from files, variables and flags.
#include "base/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/testing/temporary_directory.h"

namespace millrace {
namespace {

struct Options {
  std::string listen = "127.0.0.1:1";
  uint64_t cache = 1 << 20;
  uint64_t wait = 30;
  uint64_t threads = 2;
  bool log = false;
  std::vector<std::string> drives;

  Settings table() {
    Settings settings;
    settings.add("listen", listen, "Where.");
    settings.add("cache", cache, Settings::Unit::kBytes, "How much.");
    settings.add("wait", wait, Settings::Unit::kSeconds, "How long.");
    settings.add("threads", threads, Settings::Unit::kCount, "How many.");
    settings.add("log", log, "Whether.");
    settings.add("drives", drives, "Which.");
    return settings;
  }
};

class SettingsTest : public ::testing::Test {
 protected:
  Status load(const std::string& text) {
    const std::string path = directory_.path() + "/x.toml";
    const auto written = write_file_atomically(path, text);
    EXPECT_TRUE(written.has_value());
    return options_.table().load_file(path);
  }
  testing::TemporaryDirectory directory_;
  Options options_;
};

TEST_F(SettingsTest, ReadsEveryTypeFromAFile) {
  ASSERT_TRUE(
      load("listen = \"a:2\"\ncache = \"4MiB\"\nwait = \"2h\"\nthreads = 7\nlog = true\ndrives = [\"/a\", "
           "\"/b\"]\n"));
  EXPECT_EQ(options_.listen, "a:2");
  EXPECT_EQ(options_.cache, 4U << 20);
  EXPECT_EQ(options_.wait, 7200U);
  EXPECT_EQ(options_.threads, 7U);
  EXPECT_TRUE(options_.log);
  EXPECT_EQ(options_.drives, (std::vector<std::string>{"/a", "/b"}));
}

TEST_F(SettingsTest, WhatItPrintsReadsBackAsTheSame) {
  options_.cache = 3 << 20;
  options_.drives = {"/a", "/c"};
  const std::string printed = options_.table().print();
  Options other;
  std::swap(other, options_);
  ASSERT_TRUE(load(printed)) << printed;
  EXPECT_EQ(options_.cache, other.cache);
  EXPECT_EQ(options_.drives, other.drives);
  EXPECT_EQ(options_.wait, other.wait);
}

TEST_F(SettingsTest, WordsOfListsMayHoldBlanksAndCommas) {
  ASSERT_TRUE(load("drives = [\"/my disk\", \"/a,b\"]\n"));
  EXPECT_EQ(options_.drives, (std::vector<std::string>{"/my disk", "/a,b"}));
  EXPECT_FALSE(options_.table().set_list("listen", {"a"}, "here"));
  EXPECT_FALSE(options_.table().set_list("drive", {"a"}, "here"));
}

TEST_F(SettingsTest, NamesTheNearestSettingAndThePlaceOfAnUnknownOne) {
  const auto loaded = load("log = true\nlisten = \"x\"\nthread = 3\n");
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message().find("x.toml:3:"), std::string::npos) << loaded.error().message();
  EXPECT_NE(loaded.error().hint().find("\"threads\""), std::string::npos) << loaded.error().hint();
}

TEST_F(SettingsTest, RefusesWhatCannotBe) {
  for (const char* text :
       {"cache = \"4 potatoes\"", "wait = \"soon\"", "threads = -1", "threads = \"x\"", "log = 3",
        "listen = {a = 1}", "listen = 2026-01-01", "drives = [[\"/a\"]]", "x ="}) {
    EXPECT_FALSE(load(text)) << text;
  }
}

TEST_F(SettingsTest, TheEnvironmentOverridesAndOthersAreLeftAlone) {
  ::setenv("MILLRACE_THREADS", "9", 1);
  ::setenv("MILLRACE_NO_SUCH_SETTING", "9", 1);
  EXPECT_TRUE(options_.table().load_environment());
  ::unsetenv("MILLRACE_THREADS");
  ::unsetenv("MILLRACE_NO_SUCH_SETTING");
  EXPECT_EQ(options_.threads, 9U);
}

TEST(NearestWordTest, IsEmptyWhereNothingIsNear) {
  EXPECT_EQ(nearest_word("lisen", {"listen", "cache"}), "listen");
  EXPECT_EQ(nearest_word("zzzzzzzz", {"listen", "cache"}), "");
}

}  // namespace
}  // namespace millrace
