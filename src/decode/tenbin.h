// tenbin (.ten, .tb): several arrays one after another, each with a short name, padded to 64 bytes.
//
// An array is two chunks, header and elements; a chunk is the word "~TenBin~", its length, its bytes, zeros
// up to a multiple of 64. The header is int64s: type and name as eight characters each, number of dimensions,
// dimensions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/array.h"

namespace millrace::decode {

// The arrays' bytes point into `bytes`.
Result<std::vector<NamedArray>> parse_tenbin(std::string_view bytes);

// Names of at most eight ASCII characters; no Fortran order, no bool and no complex types.
Result<std::string> encode_tenbin(std::span<const NamedArray> arrays);

}  // namespace millrace::decode
