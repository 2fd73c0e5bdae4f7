// Decodes WebP. libwebp decodes up to the last row that is wanted and converts only the wanted part to RGB.
#include "decode/webp.h"

#include <webp/decode.h>

#include <algorithm>
#include <cstring>

#include "decode/colour.h"

namespace millrace::decode {

namespace {

// Smooth upsampling of colour looks one sample beyond the part: these pixels more on each side.
constexpr uint32_t kMargin = 2;

const uint8_t* data(std::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

Error make_webp_error(VP8StatusCode failure, std::string_view bytes) {
  switch (failure) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return make_error(Code::kTruncated, "WebP is cut: it ends after {} bytes", bytes.size());
    case VP8_STATUS_OUT_OF_MEMORY:
      return make_error(Code::kTooLarge, "no memory for a WebP decoder");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return make_error(Code::kUnsupported, "WebP uses a feature that libwebp does not know");
    default:
      return make_error(Code::kCorrupt, "WebP is damaged (libwebp status {})", static_cast<int>(failure));
  }
}

Result<WebPBitstreamFeatures> read_features(std::string_view bytes) {
  WebPBitstreamFeatures features;
  const VP8StatusCode failure = WebPGetFeatures(data(bytes), bytes.size(), &features);
  if (failure != VP8_STATUS_OK) return make_webp_error(failure, bytes);
  return features;
}

// The region with its margin; the library begins at even places only.
Rect widen(Rect region, Size size) {
  const uint32_t x = (region.x - std::min(region.x, kMargin)) & ~1U;
  const uint32_t y = (region.y - std::min(region.y, kMargin)) & ~1U;
  return {x, y, std::min(size.width, region.x + region.width + kMargin) - x,
          std::min(size.height, region.y + region.height + kMargin) - y};
}

}  // namespace

Result<Size> read_webp_size(std::string_view bytes) {
  const WebPBitstreamFeatures features = MR_TRY(read_features(bytes));
  if (features.width <= 0 || features.height <= 0) {
    return make_error(Code::kCorrupt, "WebP says its size is {} x {}", features.width, features.height);
  }
  return Size{static_cast<uint32_t>(features.width), static_cast<uint32_t>(features.height)};
}

Status decode_webp(std::string_view bytes, const DecodeOptions& options, Pixels& lines, Pixels& into) {
  const Size size = MR_TRY(read_webp_size(bytes));
  if (auto error = find_misfit(size, options)) return std::move(*error);
  const WebPBitstreamFeatures features = MR_TRY(read_features(bytes));
  if (features.has_animation != 0) {
    return make_error(Code::kUnsupported, "WebP is an animation").with_hint("extract its frames before");
  }
  const Rect region = options.region.value_or(whole(size));
  const Rect held = region == whole(size) ? region : widen(region, size);
  const bool alpha = options.channels == Channels::kRgba;
  const bool as_is = held == region && options.channels != Channels::kGray;
  Pixels& target = as_is ? into : lines;
  target.resize(held.size(), alpha ? Channels::kRgba : Channels::kRgb);

  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) {
    return make_error(Code::kUnsupported, "libwebp is another version than the one built for");
  }
  config.options.use_cropping = held == whole(size) ? 0 : 1;
  config.options.crop_left = static_cast<int>(held.x);
  config.options.crop_top = static_cast<int>(held.y);
  config.options.crop_width = static_cast<int>(held.width);
  config.options.crop_height = static_cast<int>(held.height);
  config.output.colorspace = alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {target.row(0), static_cast<int>(target.row_bytes()), target.byte_count()};
  const VP8StatusCode failure = WebPDecode(data(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (failure != VP8_STATUS_OK) return make_webp_error(failure, bytes);
  if (as_is) return {};

  into.resize(region.size(), options.channels);
  for (uint32_t y = 0; y < region.height; ++y) {
    const uint8_t* in = lines.row(region.y - held.y + y) + (region.x - held.x) * count(lines.channels());
    if (options.channels == Channels::kGray) {
      rgb_to_gray(in, region.width, into.row(y));
    } else {
      std::memcpy(into.row(y), in, into.row_bytes());
    }
  }
  return {};
}

}  // namespace millrace::decode
