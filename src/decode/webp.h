// WebP through libwebp: lossy and lossless stills. Used by image.cc alone.
#pragma once

#include <string_view>

#include "base/result.h"
#include "decode/image.h"

namespace millrace::decode {

Result<Size> read_webp_size(std::string_view bytes);

// `lines` is memory that is used again.
Status decode_webp(std::string_view bytes, const DecodeOptions& options, Pixels& lines, Pixels& into);

}  // namespace millrace::decode
