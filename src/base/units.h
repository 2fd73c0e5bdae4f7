// Byte sizes and counts as people write and read them.
//
// Decimal and binary are told apart: "256M" and "256MB" are 256 000 000, "256MiB" is 268 435 456.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

Result<uint64_t> parse_bytes(std::string_view text);
std::string format_bytes(uint64_t bytes);  // "1.2 GB", decimal
std::string format_count(uint64_t count);  // "60 000"

}  // namespace millrace
