// Commands over samples: order, failures, many results, and nothing left behind.
#include "shard/map.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_directory.h"
#include "shard/writer.h"

namespace millrace::shard {
namespace {

using Texts = std::vector<std::string>;

class MapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = ShardFile::create(directory_.path("in.tar"), {});
    for (int i = 0; i < 12; ++i) {
      const std::string text = std::to_string(i);
      const NewField fields[] = {{"txt", text}};
      ASSERT_TRUE((*file)->add(fmt::format("k{:02}", i), fields));
    }
    ASSERT_TRUE((*file)->finish());
    ASSERT_TRUE(std::filesystem::create_directory(directory_.path("tmp")));
  }

  Result<MapReport> map(const std::string& command, MapOptions options) {
    options.command = {"/bin/sh", "-c", command};
    options.jobs = 4;
    options.directory = directory_.path("tmp");
    InputStream samples({directory_.path("in.tar")}, {});
    made_.clear();
    MapCalls calls;
    calls.made = [&](std::string_view key, std::span<const NewField> fields) {
      std::string text(key);
      for (const NewField& field : fields) text += fmt::format(" {}={}", field.field, field.bytes);
      made_.push_back(text);
      return Status();
    };
    calls.kept = [&](const tar::Sample& sample) {
      made_.push_back(fmt::format("{} as it was: {}", sample.key, sample.fields[0].bytes));
      return Status();
    };
    auto report = map_samples(samples, options, calls);
    EXPECT_TRUE(std::filesystem::is_empty(directory_.path("tmp")));
    return report;
  }

  millrace::testing::TemporaryDirectory directory_;
  Texts made_;
};

TEST_F(MapTest, ResultsKeepTheOrderOfTheInput) {
  const auto report = map(
      "printf '%s-%s' $MILLRACE_KEY \"$(cat sample.txt)\" > sample.new; rm sample.txt; echo x > scratch", {});
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(made_.size(), 12U);
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(made_[static_cast<size_t>(i)], fmt::format("k{0:02} new=k{0:02}-{0}", i));
}

TEST_F(MapTest, AFailureStopsEverythingByDefaultAndNamesTheSample) {
  const auto report = map("test $(cat sample.txt) -lt 5", {});
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message().find("sample \"k05\": /bin/sh failed with exit code 1"),
            std::string::npos);
}

TEST_F(MapTest, FailuresCanBeSkippedOrKept) {
  MapOptions options;
  options.on_error = OnCommandError::kSkip;
  auto report = map("test $(cat sample.txt) -lt 5", options);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->failed, 7U);
  EXPECT_EQ(made_.size(), 5U);
  options.on_error = OnCommandError::kKeep;
  report = map("echo changed > sample.txt; test $MILLRACE_KEY != k03", options);
  ASSERT_TRUE(report);
  EXPECT_EQ(made_.size(), 12U);
  EXPECT_EQ(made_[3], "k03 as it was: 3");
  EXPECT_EQ(made_[4], "k04 txt=changed\n");
}

TEST_F(MapTest, ACommandThatDiesBySignalIsAFailure) {
  const auto report = map("kill -9 $$", {});
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message().find("signal 9"), std::string::npos);
}

TEST_F(MapTest, OneSampleCanBecomeManyOrNone) {
  MapOptions options;
  options.fanout = Fanout::kMany;
  const auto report =
      map("if test $MILLRACE_KEY = k01; then echo b > sample-b.txt; echo a > sample-a.txt; fi", options);
  ASSERT_TRUE(report);
  EXPECT_EQ(made_, (Texts{"k01-a txt=a\n", "k01-b txt=b\n"}));
  EXPECT_EQ(report->dropped, 11U);
}

TEST_F(MapTest, LinksThatACommandLeavesAreNotFollowed) {
  const auto report = map("ln -s /etc/passwd sample.passwd; ln -s sample.loop sample.loop", {});
  ASSERT_TRUE(report);
  EXPECT_EQ(made_[0], "k00 txt=0");
}

TEST_F(MapTest, FieldsThatDifferInCapitalsOnlyAreAFailure) {
  const auto report = map("cp sample.txt sample.TXT", {});
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message().find("two files for the field txt"), std::string::npos);
}

TEST_F(MapTest, AnOuterKeyIsNotSeenByTheCommand) {
  ASSERT_EQ(setenv("MILLRACE_KEY", "outer", 1), 0);
  const auto report = map("env | grep -c MILLRACE_KEY > sample.txt", {});
  unsetenv("MILLRACE_KEY");
  ASSERT_TRUE(report);
  EXPECT_EQ(made_[0], "k00 txt=1\n");
}

TEST_F(MapTest, AProgramThatDoesNotExistIsAnError) {
  InputStream samples({directory_.path("in.tar")}, {});
  MapOptions options;
  options.command = {"/nonexistent/program"};
  options.directory = directory_.path("tmp");
  const auto report = map_samples(samples, options, {});
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message().find("/nonexistent/program"), std::string::npos);
}

}  // namespace
}  // namespace millrace::shard
