// Computes crops. Python rounds halves to even, and so does nearbyint; C++'s round does not.
#include "decode/crop.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::decode {

namespace {

constexpr int kTries = 10;

double draw(double from, double to, Random& random) {
  return from + (to - from) * random.unit();
}

uint32_t rounded(double value) {
  return static_cast<uint32_t>(std::nearbyint(value));
}

// Half of what is over, halves to even.
uint32_t half(uint32_t over) {
  return rounded(over / 2.0);
}

}  // namespace

Size resized(Size image, uint32_t shorter) {
  const bool upright = image.width <= image.height;
  const uint32_t short_side = upright ? image.width : image.height;
  const uint32_t long_side = upright ? image.height : image.width;
  // A strip of a pixel's width would exceed every limit: it stays above them without wrapping around.
  const auto new_long = static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{shorter} * long_side / short_side, std::numeric_limits<uint32_t>::max()));
  return upright ? Size{shorter, new_long} : Size{new_long, shorter};
}

Rect choose_random_resized(Size image, const CropRange& range, Random& random) {
  const double area = static_cast<double>(image.width) * image.height;
  const double log_from = std::log(range.ratio_from);
  const double log_to = std::log(range.ratio_to);
  for (int i = 0; i < kTries; ++i) {
    const double wanted = area * draw(range.scale_from, range.scale_to, random);
    const double ratio = std::exp(draw(log_from, log_to, random));
    const double width = std::nearbyint(std::sqrt(wanted * ratio));
    const double height = std::nearbyint(std::sqrt(wanted / ratio));
    if (!(width > 0 && width <= image.width && height > 0 && height <= image.height)) continue;
    Rect crop{0, 0, static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
    crop.y = static_cast<uint32_t>(random.below(image.height - crop.height + uint64_t{1}));
    crop.x = static_cast<uint32_t>(random.below(image.width - crop.width + uint64_t{1}));
    return crop;
  }
  const double ratio = static_cast<double>(image.width) / image.height;
  Rect crop = whole(image);
  if (ratio < range.ratio_from) crop.height = std::max(1U, rounded(image.width / range.ratio_from));
  if (ratio > range.ratio_to) crop.width = std::max(1U, rounded(image.height * range.ratio_to));
  crop.x = (image.width - crop.width) / 2;
  crop.y = (image.height - crop.height) / 2;
  return crop;
}

Result<Rect> choose_random(Size image, Size crop, Random& random) {
  if (image.width < crop.width || image.height < crop.height) {
    return make_error(Code::kInvalid, "image of {} x {} is smaller than the random crop of {} x {}",
                      image.width, image.height, crop.width, crop.height)
        .with_hint("set resize, so that the shorter side is large enough");
  }
  if (image == crop) return whole(image);
  const auto y = static_cast<uint32_t>(random.below(image.height - crop.height + uint64_t{1}));
  const auto x = static_cast<uint32_t>(random.below(image.width - crop.width + uint64_t{1}));
  return Rect{x, y, crop.width, crop.height};
}

CenterCrop choose_center(Size image, Size crop) {
  CenterCrop center;
  center.from.width = std::min(image.width, crop.width);
  center.from.height = std::min(image.height, crop.height);
  center.from.x = half(image.width - center.from.width);
  center.from.y = half(image.height - center.from.height);
  center.to_x = (crop.width - center.from.width) / 2;
  center.to_y = (crop.height - center.from.height) / 2;
  return center;
}

}  // namespace millrace::decode
