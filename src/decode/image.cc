// Recognises image formats by their first bytes and calls the decoder of each.
#include "decode/image.h"

#include "decode/first_bytes.h"
#include "decode/jpeg.h"
#include "decode/png.h"
#include "decode/webp.h"

namespace millrace::decode {

namespace {

Error make_unknown_format(std::string_view bytes) {
  if (bytes.empty()) return make_error(Code::kCorrupt, "no image: the field is empty");
  return make_error(Code::kUnsupported, "not a JPEG, PNG or WebP: it begins with \"{}\"", first_bytes(bytes));
}

}  // namespace

std::string_view format_name(Format format) {
  switch (format) {
    case Format::kJpeg:
      return "JPEG";
    case Format::kPng:
      return "PNG";
    case Format::kWebp:
      return "WebP";
  }
  return "";
}

std::optional<Format> find_format(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return Format::kJpeg;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return Format::kPng;
  if (bytes.starts_with("RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP") return Format::kWebp;
  return std::nullopt;
}

Result<Size> read_size(std::string_view bytes) {
  const auto format = find_format(bytes);
  if (!format) return make_unknown_format(bytes);
  switch (*format) {
    case Format::kJpeg:
      return read_jpeg_size(bytes);
    case Format::kPng:
      return read_png_size(bytes);
    case Format::kWebp:
      return read_webp_size(bytes);
  }
  return make_unknown_format(bytes);
}

std::optional<Error> find_misfit(Size size, const DecodeOptions& options) {
  const uint64_t pixels = uint64_t{size.width} * size.height;
  if (pixels > options.most_pixels) {
    return make_error(Code::kTooLarge, "image of {} x {} pixels is larger than the limit of {} pixels",
                      size.width, size.height, options.most_pixels);
  }
  if (options.region && !options.region->fits(size)) {
    const Rect& region = *options.region;
    return make_error(Code::kInvalid, "region {} x {} at ({}, {}) is not inside the image of {} x {}",
                      region.width, region.height, region.x, region.y, size.width, size.height);
  }
  if (options.region && options.shrink_to > 0) {
    return make_error(Code::kInvalid, "a region of a shrunken image cannot be asked for");
  }
  return std::nullopt;
}

struct ImageDecoder::State {
  JpegDecoder jpeg;
  Pixels lines;
};

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

Status ImageDecoder::decode(std::string_view bytes, const DecodeOptions& options, Pixels& into) {
  const auto format = find_format(bytes);
  if (!format) return make_unknown_format(bytes);
  switch (*format) {
    case Format::kJpeg:
      return state_->jpeg.decode(bytes, options, into);
    case Format::kPng:
      return decode_png(bytes, options, state_->lines, into);
    case Format::kWebp:
      return decode_webp(bytes, options, state_->lines, into);
  }
  return make_unknown_format(bytes);
}

}  // namespace millrace::decode
