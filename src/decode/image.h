// Images: which format, how large, and their pixels.
//
// The pixels are those of Python's PIL, Image.open(x).convert("RGB" | "L" | "RGBA"), sample for sample where
// both use the same codec libraries, with these rules: alpha is dropped, not blended, for RGB; CMYK is taken
// to be inverted, as Adobe writes it; samples of 16 bits keep their high byte (also of grey images, which PIL
// clips instead); EXIF orientation is not applied; of an animation nothing is decoded.
//
// A damaged or cut image is an error, never half an image: where PIL passes over a bad code in a JPEG,
// this does not. With a region only the bytes up to its last row are looked at.
//
// Memory is bounded by DecodeOptions::most_pixels: four bytes for each, and for a progressive JPEG six more.
// A JPEG or PNG whose bytes are too few for the size that it claims is refused before memory is taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "decode/pixels.h"

namespace millrace::decode {

enum class Format : uint8_t { kJpeg, kPng, kWebp };

std::string_view format_name(Format format);

// By the first bytes.
std::optional<Format> find_format(std::string_view bytes);

// What a decoder is asked for.
struct DecodeOptions {
  Channels channels = Channels::kRgb;
  std::optional<Rect> region{};        // only these pixels; they are the ones a whole decode has there
  uint64_t most_pixels = 178'956'970;  // of the whole image; PIL refuses above the same number
  // Of a JPEG: it may come out at 1/2, 1/4 or 1/8 while its longer side keeps at least this. 0: as it is.
  // Not together with a region.
  uint32_t shrink_to = 0;
};

// From the first headers alone.
Result<Size> read_size(std::string_view bytes);

// What is wrong with asking this of an image of that size; every codec asks before it takes memory.
std::optional<Error> find_misfit(Size size, const DecodeOptions& options);

// Keeps the codecs' memory between images. One thread each.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  Status decode(std::string_view bytes, const DecodeOptions& options, Pixels& into);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::decode
