// Computes where crops fall: torchvision's rules, with randomness that is the same on every machine.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/result.h"
#include "decode/pixels.h"

namespace millrace::decode {

// Share of the area and width by height that RandomResizedCrop draws from.
struct CropRange {
  double scale_from = 0.08;
  double scale_to = 1.0;
  double ratio_from = 3.0 / 4;
  double ratio_to = 4.0 / 3;
};

// The size after the shorter side became `shorter`.
Size resized(Size image, uint32_t shorter);

// Ten draws; where none fits, the middle of the image with the nearest possible ratio.
Rect choose_random_resized(Size image, const CropRange& range, Random& random);

// An image that is smaller than the crop is an error.
Result<Rect> choose_random(Size image, Size crop, Random& random);

// The middle of the image, and where it goes in the result where the image is smaller.
struct CenterCrop {
  Rect from;
  uint32_t to_x = 0;
  uint32_t to_y = 0;
};
CenterCrop choose_center(Size image, Size crop);

}  // namespace millrace::decode
