// Fields that are small or wrapped: labels as text, members that are gzipped once more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::decode {

// A whole number as Python's int() reads it: blanks around it, a sign, underscores between digits.
Result<int64_t> parse_label(std::string_view text);

// Undoes gzip, also of several streams one after another. More than `most` bytes are an error.
Result<std::string> gunzip(std::string_view bytes, uint64_t most);

}  // namespace millrace::decode
