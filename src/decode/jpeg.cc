// Decodes JPEG. libjpeg reports errors by a call that must not return: it jumps back to where decode() called
// into the library. Between the two no C++ object with a destructor lives, so the jump skips none.
#include "decode/jpeg.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

// After <cstdio>: libjpeg's header expects it.
#include <jpeglib.h>
// After <jpeglib.h>.
#include <jerror.h>

#include "base/assert.h"
#include "decode/colour.h"

namespace millrace::decode {

namespace {

// Smooth upsampling of colour looks one sample beyond the part that is decoded: these pixels more on each
// side.
constexpr uint32_t kMargin = 2;
// Coefficients of a block that decide whether it is smoothed.
constexpr int kSmoothed = 10;
// A block of 64 pixels takes a bit at least, where Huffman codes are used.
constexpr uint64_t kMostPixelsPerByte = 512;
// Rows asked for at once; the library gives as many as one block row has.
constexpr uint32_t kRows = 16;

// Warnings after which pixels are missing or invented.
bool is_damage(int message) {
  switch (message) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

Code code_of(int message) {
  switch (message) {
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
      return Code::kUnsupported;
    case JERR_OUT_OF_MEMORY:
      return Code::kTooLarge;
    default:
      return Code::kCorrupt;
  }
}

uint32_t read_big16(std::string_view bytes, size_t at) {
  return static_cast<uint32_t>(static_cast<uint8_t>(bytes[at])) << 8 | static_cast<uint8_t>(bytes[at + 1]);
}

bool is_frame(uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

}  // namespace

Result<Size> read_jpeg_size(std::string_view bytes) {
  size_t at = 2;
  while (true) {
    at = bytes.find('\xff', at);
    at = at == bytes.npos ? at : bytes.find_first_not_of('\xff', at);
    if (at == bytes.npos || bytes.size() - at < 3) break;
    const uint8_t marker = static_cast<uint8_t>(bytes[at++]);
    if (marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd8)) continue;
    if (marker == 0xd9 || marker == 0xda) {
      return make_error(Code::kCorrupt, "JPEG has no frame header before byte {}", at);
    }
    const uint32_t length = read_big16(bytes, at);
    if (is_frame(marker)) {
      if (bytes.size() - at < 7) break;
      const Size size{read_big16(bytes, at + 5), read_big16(bytes, at + 3)};
      if (length < 8 || size.width == 0) {
        return make_error(Code::kCorrupt, "JPEG frame header at byte {} makes no sense", at);
      }
      if (size.height == 0) {
        return make_error(Code::kUnsupported, "JPEG gives its height behind the picture (DNL)");
      }
      return size;
    }
    at += std::max<uint32_t>(length, 2);
  }
  return make_error(Code::kTruncated, "JPEG ends after {} bytes, before its frame header", bytes.size());
}

struct JpegDecoder::State {
  jpeg_decompress_struct library{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf back{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  size_t size = 0;
  bool ran_out = false;
  bool too_many_scans = false;
  Pixels lines;  // rows on the way to other channels or to a part of them

  static State& of(j_common_ptr library) { return *static_cast<State*>(library->client_data); }
  static void fail(j_common_ptr library);
  static void warn(j_common_ptr library, int level);
  static boolean refill(j_decompress_ptr library);
  static void skip(j_decompress_ptr library, long count);
  static void count_scans(j_common_ptr library);

  void create();
  void feed(std::string_view bytes);
  Error make_failure() const;
  void choose_colours(Channels channels);
  void shrink(uint32_t longer_side);
  bool convert(const uint8_t* in, uint32_t width, Channels channels, uint8_t* out) const;
  bool is_smoothed() const;
  void read_rows(Rect region, Pixels& into);
  void read_whole(Pixels& into);
  void run(const DecodeOptions& options, Pixels& into, Status& done);
};

void JpegDecoder::State::fail(j_common_ptr library) {
  State& state = of(library);
  state.errors.format_message(library, state.message.data());
  std::longjmp(state.back, 1);
}

void JpegDecoder::State::warn(j_common_ptr library, int level) {
  if (level < 0 && is_damage(library->err->msg_code)) fail(library);
}

// The input is one piece, so the library asks for more only at its end. It looks ahead: a picture that lacks
// no more than its end marker is still whole, one that lacks bits gets JWRN_HIT_MARKER.
boolean JpegDecoder::State::refill(j_decompress_ptr library) {
  static const JOCTET kEnd[2] = {0xff, JPEG_EOI};
  of(reinterpret_cast<j_common_ptr>(library)).ran_out = true;
  library->src->next_input_byte = kEnd;
  library->src->bytes_in_buffer = sizeof(kEnd);
  return TRUE;
}

void JpegDecoder::State::skip(j_decompress_ptr library, long count) {
  if (count <= 0) return;
  jpeg_source_mgr& source = *library->src;
  if (static_cast<size_t>(count) > source.bytes_in_buffer) {
    refill(library);
    return;
  }
  source.next_input_byte += count;
  source.bytes_in_buffer -= static_cast<size_t>(count);
}

void JpegDecoder::State::count_scans(j_common_ptr library) {
  State& state = of(library);
  if (library->is_decompressor && state.library.input_scan_number > kMaxScans) {
    state.too_many_scans = true;
    fail(library);
  }
}

// Made anew for each image: the library would keep the tables of the image before, and a damaged image that
// lacks its own would be decoded with those.
void JpegDecoder::State::create() {
  library.err = jpeg_std_error(&errors);
  errors.error_exit = fail;
  errors.emit_message = warn;
  jpeg_create_decompress(&library);
  source.init_source = [](j_decompress_ptr) {};
  source.fill_input_buffer = refill;
  source.skip_input_data = skip;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = [](j_decompress_ptr) {};
  library.src = &source;
  progress.progress_monitor = count_scans;
  library.progress = &progress;
}

void JpegDecoder::State::feed(std::string_view bytes) {
  size = bytes.size();
  ran_out = false;
  too_many_scans = false;
  source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  source.bytes_in_buffer = bytes.size();
}

Error JpegDecoder::State::make_failure() const {
  if (too_many_scans) return make_error(Code::kTooLarge, "JPEG has more than {} scans", kMaxScans);
  if (ran_out) return make_error(Code::kTruncated, "JPEG is cut: it ends after {} bytes", size);
  return make_error(code_of(errors.msg_code), "JPEG near byte {}: {}", size - source.bytes_in_buffer,
                    message.data());
}

void JpegDecoder::State::choose_colours(Channels channels) {
  if (library.num_components == 4) {
    library.out_color_space = JCS_CMYK;
  } else if (channels == Channels::kGray && library.jpeg_color_space == JCS_GRAYSCALE) {
    library.out_color_space = JCS_GRAYSCALE;
  } else if (channels == Channels::kRgba) {
    library.out_color_space = JCS_EXT_RGBA;
  } else {
    library.out_color_space = JCS_RGB;
  }
}

// Halves only: the library's other steps are slower than decoding everything.
void JpegDecoder::State::shrink(uint32_t longer_side) {
  library.scale_denom = 8;
  for (library.scale_num = 1; library.scale_num < 8; library.scale_num *= 2) {
    jpeg_calc_output_dimensions(&library);
    if (std::max(library.output_width, library.output_height) >= longer_side) break;
  }
}

// Whether the library's rows are not what is wanted; if so, converts one where there is one.
bool JpegDecoder::State::convert(const uint8_t* in, uint32_t width, Channels channels, uint8_t* out) const {
  if (library.out_color_space == JCS_RGB && channels == Channels::kGray) {
    rgb_to_gray(in, width, out);
    return true;
  }
  if (library.out_color_space != JCS_CMYK) return false;
  if (channels == Channels::kRgb) {
    cmyk_to_rgb(in, width, out);
    return true;
  }
  for (uint32_t x = 0; x < width; ++x, in += 4, out += count(channels)) {
    std::array<uint8_t, 3> pixel;
    cmyk_to_rgb(in, 1, pixel.data());
    if (channels == Channels::kGray) rgb_to_gray(pixel.data(), 1, out);
    if (channels == Channels::kRgba) rgb_to_rgba(pixel.data(), 1, out);
  }
  return true;
}

void JpegDecoder::State::read_whole(Pixels& into) {
  std::array<JSAMPROW, kRows> rows;
  while (library.output_scanline < library.output_height) {
    const uint32_t first = library.output_scanline;
    const uint32_t wanted = std::min(kRows, library.output_height - first);
    for (uint32_t i = 0; i < wanted; ++i) rows[i] = into.row(first + i);
    jpeg_read_scanlines(&library, rows.data(), wanted);
  }
}

// A progressive JPEG that leaves out fine detail is smoothed across blocks, several blocks far: a part of it
// is the same only if the library sees the whole.
bool JpegDecoder::State::is_smoothed() const {
  if (!library.progressive_mode || library.coef_bits == nullptr) return false;
  for (int component = 0; component < library.num_components; ++component) {
    const int* bits = library.coef_bits[component];
    if (std::any_of(bits, bits + kSmoothed, [](int missing) { return missing != 0; })) return true;
  }
  return false;
}

void JpegDecoder::State::read_rows(Rect region, Pixels& into) {
  const bool partly = !is_smoothed();
  JDIMENSION left = partly ? region.x - std::min(region.x, kMargin) : 0;
  JDIMENSION width = partly ? std::min(library.output_width, region.x + region.width + kMargin) - left
                            : library.output_width;
  if (width < library.output_width) jpeg_crop_scanline(&library, &left, &width);
  const uint32_t top = partly ? region.y - std::min(region.y, kMargin) : 0;
  if (top > 0) jpeg_skip_scanlines(&library, top);

  const size_t samples = static_cast<size_t>(library.output_components);
  lines.resize({static_cast<uint32_t>(width * samples), kRows}, Channels::kGray);
  std::array<JSAMPROW, kRows> rows;
  for (uint32_t i = 0; i < kRows; ++i) rows[i] = lines.row(i);
  const uint32_t end = region.y + region.height;
  while (library.output_scanline < end) {
    const uint32_t first = library.output_scanline;
    const uint32_t got = jpeg_read_scanlines(&library, rows.data(), kRows);
    for (uint32_t y = std::max(first, region.y); y < std::min(first + got, end); ++y) {
      const uint8_t* in = lines.row(y - first) + (region.x - left) * samples;
      uint8_t* out = into.row(y - region.y);
      if (!convert(in, region.width, into.channels(), out)) std::memcpy(out, in, into.row_bytes());
    }
  }
}

// `done` is the caller's: nothing that must be destroyed lives here while the library runs.
void JpegDecoder::State::run(const DecodeOptions& options, Pixels& into, Status& done) {
  jpeg_read_header(&library, TRUE);
  const Size whole_size{library.image_width, library.image_height};
  if (auto error = find_misfit(whole_size, options)) {
    done = std::move(*error);
    return;
  }
  // Memory is taken for what the bytes can hold, not for what the header claims.
  if (!library.arith_code && uint64_t{whole_size.width} * whole_size.height > size * kMostPixelsPerByte) {
    done = make_error(Code::kTruncated, "JPEG of {} x {} cannot be whole in {} bytes", whole_size.width,
                      whole_size.height, size);
    return;
  }
  choose_colours(options.channels);
  if (options.shrink_to > 0) shrink(options.shrink_to);
  jpeg_start_decompress(&library);
  if (jpeg_has_multiple_scans(&library) && ran_out) {
    // Scans that refine the picture may be missing: nothing else would tell.
    done = make_failure();
    return;
  }
  const Size out_size{library.output_width, library.output_height};
  const Rect region = options.region.value_or(whole(out_size));
  into.resize(region.size(), options.channels);
  const bool as_is = static_cast<size_t>(library.output_components) == count(options.channels) &&
                     library.out_color_space != JCS_CMYK;
  if (as_is && region == whole(out_size)) {
    read_whole(into);
  } else {
    read_rows(region, into);
  }
  // What follows the last row is of no interest.
}

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {}

JpegDecoder::~JpegDecoder() = default;

Status JpegDecoder::decode(std::string_view bytes, const DecodeOptions& options, Pixels& into) {
  State& state = *state_;
  state.feed(bytes);
  // Before the library exists: its creation keeps this, and may fail too.
  state.library = {};
  state.library.client_data = &state;
  Status done;
  if (setjmp(state.back) == 0) {
    state.create();
    state.run(options, into, done);
  } else {
    done = state.make_failure();
  }
  jpeg_destroy_decompress(&state.library);
  return done;
}

}  // namespace millrace::decode
