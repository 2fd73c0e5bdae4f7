// Implements the clocks, and dates without locale and without locks.
#include "base/clock.h"

#include <ctime>

namespace millrace {

namespace {
constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct Date {
  int year;
  unsigned month;  // from 1
  unsigned day;
  unsigned weekday;  // from Sunday
  unsigned hour, minute, second;
};

// The calendar by arithmetic: gmtime_r takes a lock, and every response has two dates.
Date broken_down(int64_t wall_ms) {
  const int64_t seconds = wall_ms / 1000 - (wall_ms % 1000 < 0 ? 1 : 0);
  const int64_t days = (seconds >= 0 ? seconds : seconds - 86399) / 86400;
  const auto of_day = static_cast<unsigned>(seconds - days * 86400);
  const int64_t shifted = days + 719468;
  const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  const auto of_era = static_cast<unsigned>(shifted - era * 146097);
  const unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const unsigned from_march = (5 * of_year + 2) / 153;
  const unsigned month = from_march < 10 ? from_march + 3 : from_march - 9;
  Date date{};
  date.year = static_cast<int>(static_cast<int64_t>(year_of_era) + era * 400) + (month <= 2 ? 1 : 0);
  date.month = month;
  date.day = of_year - (153 * from_march + 2) / 5 + 1;
  date.weekday = static_cast<unsigned>(((days + 4) % 7 + 7) % 7);
  date.hour = of_day / 3600;
  date.minute = of_day / 60 % 60;
  date.second = of_day % 60;
  return date;
}

void put_two(char* at, unsigned value) {
  at[0] = static_cast<char>('0' + value / 10);
  at[1] = static_cast<char>('0' + value % 10);
}
void put_four(char* at, int value) {
  put_two(at, static_cast<unsigned>(value / 100));
  put_two(at + 2, static_cast<unsigned>(value % 100));
}

uint64_t microseconds_of(clockid_t clock) {
  std::timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}
}  // namespace

int64_t wall_ms() {
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

uint64_t steady_us() {
  return microseconds_of(CLOCK_MONOTONIC);
}

uint64_t boot_us() {
  return microseconds_of(CLOCK_BOOTTIME);
}

uint64_t coarse_us() {
  return microseconds_of(CLOCK_MONOTONIC_COARSE);
}

double process_cpu_seconds() {
  std::timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

std::string format_http_date(int64_t wall_ms) {
  const Date date = broken_down(wall_ms);
  std::string text = "Sun, 00 Jan 0000 00:00:00 GMT";
  text.replace(0, 3, kDays[date.weekday]);
  put_two(&text[5], date.day);
  text.replace(8, 3, kMonths[date.month - 1]);
  put_four(&text[12], date.year);
  put_two(&text[17], date.hour);
  put_two(&text[20], date.minute);
  put_two(&text[23], date.second);
  return text;
}

std::string format_iso_date(int64_t wall_ms) {
  const Date date = broken_down(wall_ms);
  std::string text = "0000-00-00T00:00:00.000Z";
  put_four(&text[0], date.year);
  put_two(&text[5], date.month);
  put_two(&text[8], date.day);
  put_two(&text[11], date.hour);
  put_two(&text[14], date.minute);
  put_two(&text[17], date.second);
  const auto ms = static_cast<unsigned>((wall_ms % 1000 + 1000) % 1000);
  text[20] = static_cast<char>('0' + ms / 100);
  put_two(&text[21], ms % 100);
  return text;
}

Result<int64_t> parse_http_date(std::string_view text) {
  const std::string copy(text);
  for (const char* format :
       {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"}) {
    std::tm parts{};
    const char* end = ::strptime(copy.c_str(), format, &parts);
    if (end != nullptr && *end == 0) return static_cast<int64_t>(::timegm(&parts)) * 1000;
  }
  return make_error(Code::kInvalid, "\"{}\" is not an HTTP date", copy.substr(0, 64));
}

Result<int64_t> parse_iso_date(std::string_view text) {
  const std::string copy(text);
  std::tm parts{};
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  const auto bad = [&] { return make_error(Code::kInvalid, "\"{}\" is not a date", copy.substr(0, 64)); };
  if (rest == nullptr) return bad();
  int64_t milliseconds = 0;
  if (*rest == '.') {
    int64_t unit = 100;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, unit /= 10) milliseconds += (*rest - '0') * unit;
  }
  const std::string_view zone = rest;
  if (zone != "Z" && zone != "+00:00" && !zone.empty()) return bad();
  return static_cast<int64_t>(::timegm(&parts)) * 1000 + milliseconds;
}

}  // namespace millrace
