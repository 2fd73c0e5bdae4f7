// Implements the fault points: reads MILLRACE_CRASH_AT and MILLRACE_BROKEN.
#include "base/fault.h"

#ifdef MILLRACE_FAULTS
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <atomic>
#include <string>

#include "base/number.h"
#include "base/text.h"

namespace millrace {

void fault_point(const char* name) {
  static const char* const where = std::getenv("MILLRACE_CRASH_AT");
  static const std::string_view crash_in = where != nullptr ? where : "";
  static const long crash_at = parse_number<long>(crash_in).value_or(0);
  static const bool tell = std::getenv("MILLRACE_TELL_FAULTS") != nullptr;
  static std::atomic<long> passed = 0;
  const long number = ++passed;
  if (tell) std::fprintf(stderr, "fault point %ld %s\n", number, name);
  if (number == crash_at || name == crash_in) ::raise(SIGKILL);
}

bool broken(std::string_view bug) {
  static const std::vector<std::string> bugs = [] {
    const char* text = std::getenv("MILLRACE_BROKEN");
    return split_words(text != nullptr ? text : "");
  }();
  for (const std::string& known : bugs) {
    if (known == bug) return true;
  }
  return false;
}

}  // namespace millrace
#endif
