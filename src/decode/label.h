// Parses labels: whole numbers as text.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace millrace::decode {

// A whole number as Python's int() reads it: blanks around it, a sign, single underscores between digits.
// ASCII only.
Result<int64_t> parse_label(std::string_view text);

}  // namespace millrace::decode
