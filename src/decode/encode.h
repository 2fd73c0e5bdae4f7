// Encoders: pixels to JPEG and PNG, arrays to .npy.
//
// The same pixels give the same bytes on machines with the same codec libraries. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/array.h"
#include "decode/pixels.h"

namespace millrace::decode {

// Gray and RGB; JPEG has no opacity. Quality is from 1 to 100. Colours are stored at half the resolution
// below 90 and at the full one from there on.
Result<std::string> encode_jpeg(const PixelsView& pixels, int quality);
Result<std::string> encode_png(const PixelsView& pixels);

// What stands before the elements, in the order of C; as numpy.save writes it.
std::string npy_header(DType dtype, const std::vector<uint64_t>& shape);

}  // namespace millrace::decode
