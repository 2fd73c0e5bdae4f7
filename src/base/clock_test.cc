// Dates against the C library's calendar.
#include "base/clock.h"

#include <gtest/gtest.h>

#include <ctime>

#include "base/random.h"

namespace millrace {
namespace {

TEST(ClockTest, FormatsTheDateThatTheProtocolShows) {
  EXPECT_EQ(format_http_date(784111777000), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(format_iso_date(784111777123), "1994-11-06T08:49:37.123Z");
  EXPECT_EQ(format_http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST(ClockTest, AgreesWithTheCalendarOfTheLibrary) {
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    const auto seconds = static_cast<std::time_t>(random.below(uint64_t{253'402'300'799}));
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[64];
    std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    ASSERT_EQ(format_http_date(static_cast<int64_t>(seconds) * 1000), text) << seconds;
    ASSERT_EQ(*parse_http_date(text), static_cast<int64_t>(seconds) * 1000);
  }
}

TEST(ClockTest, ReadsTheThreeFormsAndRefusesOthers) {
  for (const char* text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"}) {
    const auto date = parse_http_date(text);
    ASSERT_TRUE(date) << text;
    EXPECT_EQ(*date, 784111777000);
  }
  for (const char* text : {"", "yesterday", "Sun, 06 Nov 1994", "Sun, 06 Nov 1994 08:49:37 GMT and more"}) {
    EXPECT_FALSE(parse_http_date(text)) << text;
  }
}

TEST(ClockTest, SteadyTimeNeverGoesBack) {
  uint64_t last = steady_us();
  for (int i = 0; i < 1000; ++i) {
    const uint64_t now = steady_us();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace millrace
