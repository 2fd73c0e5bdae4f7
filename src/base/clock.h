// Wall time for people and protocols (Last-Modified, signatures), and steady time for durations.
//
// Wall time is shown and signed with; it never decides an order: versions do (store/version.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

int64_t wall_ms();     // milliseconds since 1970
uint64_t boot_us();    // the same, and goes on while the machine is suspended
uint64_t steady_us();  // microseconds since some moment; never goes back
uint64_t coarse_us();  // the same, up to some milliseconds late, for a fraction of the price

double process_cpu_seconds();  // of all threads, user and system

std::string format_http_date(int64_t wall_ms);  // "Sun, 15 Nov 2026 22:50:34 GMT"
std::string format_iso_date(int64_t wall_ms);   // "2026-11-15T22:50:34.123Z"
Result<int64_t> parse_http_date(std::string_view text);
Result<int64_t> parse_iso_date(std::string_view text);  // the fraction may be missing, the zone is UTC

}  // namespace millrace
