// Byte sizes, rates and counts as people write and read them.
//
// Decimal and binary are told apart: "256M" and "256MB" are 256 000 000, "256MiB" is 268 435 456. So are
// bytes and bits: "10Gb/s" is 1 250 000 000 bytes a second.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

Result<uint64_t> parse_bytes(std::string_view text);
// Bytes a second: "200MB/s", "8GiB/s", "10Gb/s". The unit and "/s" are required.
Result<uint64_t> parse_rate(std::string_view text);
// "30s", "10m", "12h", "14d"; a bare number is seconds.
Result<uint64_t> parse_seconds(std::string_view text);
std::string format_bytes(uint64_t bytes);  // "1.2 GB", decimal
std::string format_count(uint64_t count);  // "60 000"

}  // namespace millrace
