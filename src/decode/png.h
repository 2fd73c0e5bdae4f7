// PNG through libspng: every colour type and depth, interlaced or not. Used by image.cc alone.
#pragma once

#include <string_view>

#include "base/result.h"
#include "decode/image.h"

namespace millrace::decode {

Result<Size> read_png_size(std::string_view bytes);

// `lines` is memory that is used again.
Status decode_png(std::string_view bytes, const DecodeOptions& options, Pixels& lines, Pixels& into);

}  // namespace millrace::decode
