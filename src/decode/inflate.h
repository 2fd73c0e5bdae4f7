// Deflated bytes in memory, undone: members that end in .gz. Through ISA-L.
//
// No more memory is taken than `most` and what the input can give at best, 1032 times its size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::decode {

// Undoes gzip, also of several streams one after another; zeros behind the last are padding. Checksums are
// compared. More than `most` bytes are kTooLarge.
Result<std::string> gunzip(std::string_view bytes, uint64_t most);

}  // namespace millrace::decode
