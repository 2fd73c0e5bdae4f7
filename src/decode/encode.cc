// Encodes images and arrays. libjpeg reports errors by a jump back to where it was called: between the two no
// C++ object with a destructor lives.
#include "decode/encode.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>

// After <cstdio>: libjpeg's header expects it.
#include <jpeglib.h>
#include <spng.h>

namespace millrace::decode {

namespace {

struct JumpingErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
};

[[noreturn]] void jump_back(j_common_ptr library) {
  std::longjmp(reinterpret_cast<JumpingErrors*>(library->err)->back, 1);
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

struct Made {
  unsigned char* memory = nullptr;
  unsigned long size = 0;
};

// False: the library gave up, and `made.memory` may be there.
bool compress(const PixelsView& pixels, int quality, Made& made) {
  jpeg_compress_struct library{};
  JumpingErrors errors{};
  library.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = jump_back;
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_compress(&library);
    return false;
  }
  jpeg_create_compress(&library);
  jpeg_mem_dest(&library, &made.memory, &made.size);
  library.image_width = pixels.size.width;
  library.image_height = pixels.size.height;
  library.input_components = static_cast<int>(count(pixels.channels));
  library.in_color_space = pixels.channels == Channels::kGray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&library);
  jpeg_set_quality(&library, quality, TRUE);
  if (pixels.channels == Channels::kRgb && quality >= 90) {
    library.comp_info[0].h_samp_factor = 1;
    library.comp_info[0].v_samp_factor = 1;
  }
  jpeg_start_compress(&library, TRUE);
  while (library.next_scanline < library.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(pixels.row(library.next_scanline));
    jpeg_write_scanlines(&library, &row, 1);
  }
  jpeg_finish_compress(&library);
  jpeg_destroy_compress(&library);
  return true;
}

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

}  // namespace

Result<std::string> encode_jpeg(const PixelsView& pixels, int quality) {
  if (pixels.channels == Channels::kRgba)
    return make_error(Code::kUnsupported, "JPEG has no opacity").with_hint("channels=rgb, or png");
  Made made;
  const bool is_made = compress(pixels, quality, made);
  const std::unique_ptr<unsigned char, Free> memory(made.memory);
  if (!is_made)
    return make_error(Code::kInvalid, "{} x {} pixels cannot be a JPEG", pixels.size.width,
                      pixels.size.height);
  return std::string(reinterpret_cast<const char*>(memory.get()), made.size);
}

Result<std::string> encode_png(const PixelsView& pixels) {
  const std::unique_ptr<spng_ctx, FreeContext> context(spng_ctx_new(SPNG_CTX_ENCODER));
  if (!context) return make_error(Code::kTooLarge, "there is no memory for a PNG");
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = pixels.size.width;
  header.height = pixels.size.height;
  header.bit_depth = 8;
  header.color_type = pixels.channels == Channels::kGray  ? SPNG_COLOR_TYPE_GRAYSCALE
                      : pixels.channels == Channels::kRgb ? SPNG_COLOR_TYPE_TRUECOLOR
                                                          : SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
  spng_set_ihdr(context.get(), &header);
  int failure = spng_encode_image(context.get(), nullptr, 0, SPNG_FMT_PNG,
                                  SPNG_ENCODE_PROGRESSIVE | SPNG_ENCODE_FINALIZE);
  const size_t row_bytes = pixels.size.width * count(pixels.channels);
  for (uint32_t y = 0; failure == 0 && y < pixels.size.height; ++y)
    failure = spng_encode_row(context.get(), pixels.row(y), row_bytes);
  if (failure != 0 && failure != SPNG_EOI)
    return make_error(Code::kInvalid, "encoding a PNG: {}", spng_strerror(failure));
  size_t size = 0;
  int problem = 0;
  const std::unique_ptr<void, Free> memory(spng_get_png_buffer(context.get(), &size, &problem));
  if (!memory) return make_error(Code::kInvalid, "encoding a PNG: {}", spng_strerror(problem));
  return std::string(static_cast<const char*>(memory.get()), size);
}

std::string npy_header(DType dtype, const std::vector<uint64_t>& shape) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kBefore = 10;  // magic, version, length of what follows
  std::string sides;
  for (const uint64_t side : shape) sides += fmt::format("{}{}", sides.empty() ? "" : ", ", side);
  if (shape.size() == 1) sides += ",";
  const std::string_view order = item_bytes(dtype) == 1 ? "|" : "<";
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}", order,
                                 short_name(dtype), sides);
  const size_t whole = (kBefore + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(whole - kBefore - 1, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace millrace::decode
