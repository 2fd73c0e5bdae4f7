// Decodes PNG row by row, so that a region costs memory of its own size only; interlaced images are decoded
// whole first.
#include "decode/png.h"

#include <spng.h>

#include <cstring>
#include <memory>

#include "decode/colour.h"

namespace millrace::decode {

namespace {

// Of one text or profile chunk, and of all that are kept.
constexpr size_t kMaxChunk = 16 << 20;

// Deflate cannot do better.
constexpr uint64_t kBestRatio = 1032;

// Of all rows before compression, at least.
uint64_t find_raw_bytes(const spng_ihdr& header) {
  const uint64_t samples = header.color_type == SPNG_COLOR_TYPE_TRUECOLOR         ? 3
                           : header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA ? 4
                           : header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ? 2
                                                                                  : 1;
  return uint64_t{header.width} * samples * header.bit_depth / 8 * header.height;
}

struct Close {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, Close>;

Error make_png_error(int failure, std::string_view doing) {
  const char* why = spng_strerror(failure);
  if (failure == SPNG_IO_EOF || failure == SPNG_EIDAT_TOO_SHORT) {
    return make_error(Code::kTruncated, "PNG is cut ({}): {}", doing, why);
  }
  const bool memory = failure == SPNG_EMEM || failure == SPNG_EOVERFLOW;
  return make_error(memory ? Code::kTooLarge : Code::kCorrupt, "PNG is damaged ({}): {}", doing, why);
}

// Rows in the decoder's samples to rows in the wanted channels.
void put_row(const uint8_t* in, const Rect& region, Channels channels, uint8_t* out) {
  if (channels == Channels::kGray) {
    rgb_to_gray(in + size_t{region.x} * 3, region.width, out);
  } else {
    std::memcpy(out, in + region.x * count(channels), region.width * count(channels));
  }
}

Status read_interlaced(spng_ctx* context, const Rect& region, int flags, Pixels& lines, Pixels& into) {
  const int format = into.channels() == Channels::kRgba ? SPNG_FMT_RGBA8 : SPNG_FMT_RGB8;
  const int failure = spng_decode_image(context, lines.row(0), lines.byte_count(), format, flags);
  if (failure != 0) return make_png_error(failure, "interlaced rows");
  for (uint32_t y = 0; y < region.height; ++y) {
    put_row(lines.row(region.y + y), region, into.channels(), into.row(y));
  }
  return {};
}

Status read_rows(spng_ctx* context, const Rect& region, int flags, Pixels& lines, Pixels& into) {
  const int format = into.channels() == Channels::kRgba ? SPNG_FMT_RGBA8 : SPNG_FMT_RGB8;
  int failure = spng_decode_image(context, nullptr, 0, format, flags | SPNG_DECODE_PROGRESSIVE);
  if (failure != 0) return make_png_error(failure, "first row");
  for (uint32_t y = 0; y < region.y + region.height; ++y) {
    failure = spng_decode_row(context, lines.row(0), lines.row_bytes());
    // The last row comes together with the end of the image.
    if (failure != 0 && failure != SPNG_EOI) return make_png_error(failure, fmt::format("row {}", y));
    if (y >= region.y) put_row(lines.row(0), region, into.channels(), into.row(y - region.y));
  }
  return {};
}

}  // namespace

Result<Size> read_png_size(std::string_view bytes) {
  if (bytes.size() < 24) {
    return make_error(Code::kTruncated, "PNG ends after {} bytes, inside its header", bytes.size());
  }
  const auto read = [bytes](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
  };
  const Size size{read(16), read(20)};
  if (bytes.substr(12, 4) != "IHDR" || size.width == 0 || size.height == 0) {
    return make_error(Code::kCorrupt, "PNG does not begin with a header that makes sense");
  }
  return size;
}

Status decode_png(std::string_view bytes, const DecodeOptions& options, Pixels& lines, Pixels& into) {
  const Size size = MR_TRY(read_png_size(bytes));
  if (auto error = find_misfit(size, options)) return std::move(*error);
  Context context(spng_ctx_new(0));
  if (!context) return make_error(Code::kTooLarge, "no memory for a PNG decoder");
  spng_set_chunk_limits(context.get(), kMaxChunk, kMaxChunk);
  // A damaged comment does not spoil the picture.
  spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  spng_set_png_buffer(context.get(), bytes.data(), bytes.size());
  spng_ihdr header;
  if (const int failure = spng_get_ihdr(context.get(), &header)) return make_png_error(failure, "header");

  if (find_raw_bytes(header) > bytes.size() * kBestRatio) {
    return make_error(Code::kTruncated, "PNG of {} x {} cannot be whole in {} bytes", size.width, size.height,
                      bytes.size());
  }
  const Rect region = options.region.value_or(whole(size));
  const bool alpha = options.channels == Channels::kRgba;
  const int flags = alpha ? SPNG_DECODE_TRNS : 0;
  const bool interlaced = header.interlace_method != SPNG_INTERLACE_NONE;
  lines.resize({size.width, interlaced ? size.height : 1}, alpha ? Channels::kRgba : Channels::kRgb);
  into.resize(region.size(), options.channels);
  return interlaced ? read_interlaced(context.get(), region, flags, lines, into)
                    : read_rows(context.get(), region, flags, lines, into);
}

}  // namespace millrace::decode
