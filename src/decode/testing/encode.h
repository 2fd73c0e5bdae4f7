// Encoders for tests: pictures whose pixels are known, in every format that is decoded.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// After <cstdio>: libjpeg's header expects it.
#include <jpeglib.h>
#include <spng.h>
#include <webp/encode.h>

#include "base/assert.h"
#include "base/random.h"
#include "decode/pixels.h"

namespace millrace::decode {

// Slopes, edges and noise.
inline Pixels make_picture(Size size, Channels channels = Channels::kRgb, uint64_t seed = 1) {
  Random random(seed);
  Pixels picture;
  picture.resize(size, channels);
  for (uint32_t y = 0; y < size.height; ++y) {
    for (size_t i = 0; i < picture.row_bytes(); ++i) {
      const uint64_t slope = (i * 2 + uint64_t{y} * 3) % 256;
      const uint64_t edge = (i / 40 + y / 13) % 5 == 0 ? 90 : 0;
      picture.row(y)[i] = static_cast<uint8_t>((slope + edge + random.below(24)) % 256);
    }
  }
  return picture;
}

struct JpegOptions {
  int quality = 90;
  int across = 2;  // colour samples are this much rarer than grey ones
  int down = 2;
  int restart_blocks = 0;
  bool progressive = false;
};

inline std::string encode_jpeg(const PixelsView& pixels, const JpegOptions& options = {}) {
  jpeg_compress_struct library{};
  jpeg_error_mgr errors{};
  library.err = jpeg_std_error(&errors);
  jpeg_create_compress(&library);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&library, &memory, &size);
  library.image_width = pixels.size.width;
  library.image_height = pixels.size.height;
  library.input_components = static_cast<int>(count(pixels.channels));
  library.in_color_space = pixels.channels == Channels::kGray  ? JCS_GRAYSCALE
                           : pixels.channels == Channels::kRgb ? JCS_RGB
                                                               : JCS_CMYK;
  jpeg_set_defaults(&library);
  jpeg_set_quality(&library, options.quality, TRUE);
  library.comp_info[0].h_samp_factor = pixels.channels == Channels::kRgb ? options.across : 1;
  library.comp_info[0].v_samp_factor = pixels.channels == Channels::kRgb ? options.down : 1;
  library.restart_interval = static_cast<unsigned>(options.restart_blocks);
  if (options.progressive) jpeg_simple_progression(&library);
  jpeg_start_compress(&library, TRUE);
  for (uint32_t y = 0; y < pixels.size.height; ++y) {
    JSAMPROW row = const_cast<uint8_t*>(pixels.row(y));
    jpeg_write_scanlines(&library, &row, 1);
  }
  jpeg_finish_compress(&library);
  std::string encoded(reinterpret_cast<const char*>(memory), size);
  jpeg_destroy_compress(&library);
  std::free(memory);
  return encoded;
}

inline std::string encode_png(const PixelsView& pixels, int interlace = SPNG_INTERLACE_NONE) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = pixels.size.width;
  header.height = pixels.size.height;
  header.bit_depth = 8;
  header.color_type = pixels.channels == Channels::kGray  ? SPNG_COLOR_TYPE_GRAYSCALE
                      : pixels.channels == Channels::kRgb ? SPNG_COLOR_TYPE_TRUECOLOR
                                                          : SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
  header.interlace_method = static_cast<uint8_t>(interlace);
  spng_set_ihdr(context, &header);
  const int failure = spng_encode_image(context, pixels.bytes, pixels.row_bytes * pixels.size.height,
                                        SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  MR_ASSERT(failure == 0, spng_strerror(failure));
  size_t size = 0;
  int problem = 0;
  void* memory = spng_get_png_buffer(context, &size, &problem);
  std::string encoded(static_cast<const char*>(memory), size);
  std::free(memory);
  spng_ctx_free(context);
  return encoded;
}

enum class Loss { kNone, kSome };

inline std::string encode_webp(const PixelsView& pixels, Loss loss) {
  uint8_t* memory = nullptr;
  const int width = static_cast<int>(pixels.size.width);
  const int height = static_cast<int>(pixels.size.height);
  const int stride = static_cast<int>(pixels.row_bytes);
  const size_t size = loss == Loss::kNone
                          ? WebPEncodeLosslessRGB(pixels.bytes, width, height, stride, &memory)
                          : WebPEncodeRGB(pixels.bytes, width, height, stride, 80, &memory);
  std::string encoded(reinterpret_cast<const char*>(memory), size);
  WebPFree(memory);
  return encoded;
}

inline std::string bytes_of(const PixelsView& pixels) {
  std::string bytes;
  for (uint32_t y = 0; y < pixels.size.height; ++y) {
    bytes.append(reinterpret_cast<const char*>(pixels.row(y)), pixels.size.width * count(pixels.channels));
  }
  return bytes;
}

}  // namespace millrace::decode
