// Log: a constant message with its pairs on standard error, and nothing below the least level.
#include "base/log.h"

#include <gtest/gtest.h>

#include <regex>

namespace millrace {
namespace {

TEST(LogTest, WritesTheMessageAndItsPairs) {
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kInfo).warn("left out members", "count", 12, "shard", "a.tar");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "millrace: warning: left out members count=12 shard=a.tar\n");
}

TEST(LogTest, LeavesOutWhatIsBelowTheLeastLevel) {
  ::testing::internal::CaptureStderr();
  Log log(LogLevel::kWarn);
  log.debug("one");
  log.info("two");
  log.warn("three");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "millrace: warning: three\n");
}

TEST(LogTest, TakesBracesAsTheyAre) {
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kDebug).debug("name {}", "name", "{0}");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "millrace: debug: name {} name={0}\n");
}

TEST(LogTest, StampsItsLinesWithTheTimeWhereThatIsAskedFor) {
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, LogStamps::kTime).warn("a drive does not serve", "drive", "/mnt/a");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(
      said,
      std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z millrace: warning: a drive does not "
                 "serve drive=/mnt/a\n")))
      << said;
}

}  // namespace
}  // namespace millrace
