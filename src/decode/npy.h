// .npy: one numpy array with a header that says what it is. Versions 1 to 3; not Python objects.
#pragma once

#include <string_view>

#include "base/result.h"
#include "decode/array.h"

namespace millrace::decode {

// A header longer than this is refused; numpy's own default.
constexpr size_t kMaxNpyHeader = 10'000;

// The array's bytes point into `bytes`. Objects, strings, records and big-endian elements are kUnsupported.
// Bytes behind the elements are an error.
Result<ArrayView> parse_npy(std::string_view bytes);

}  // namespace millrace::decode
