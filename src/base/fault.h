// Fault points: places where tests make the process die or misbehave, to prove that nothing is lost.
//
//   MR_FAULT("put.linked");                    // MILLRACE_CRASH_AT=7: the seventh point passed is a SIGKILL;
//                                              // MILLRACE_CRASH_AT=put.linked: this one is
//   if (!broken("no-fsync")) MR_TRY(sync());   // MILLRACE_BROKEN=no-fsync: a bug on purpose
//
// Only builds with MILLRACE_FAULTS contain them (the sanitized one); elsewhere they are nothing at all.
// Any thread.
#pragma once

#include <string_view>

namespace millrace {

#ifdef MILLRACE_FAULTS
void fault_point(const char* name);
bool broken(std::string_view bug);
#define MR_FAULT(name) ::millrace::fault_point(name)
#else
constexpr bool broken(std::string_view) {
  return false;
}
#define MR_FAULT(name) static_cast<void>(0)
#endif

}  // namespace millrace
