// ImageDescription: an image field as a person describes it, by named options. Options that were not given
// follow from those that were. Only this file knows names and defaults: `millrace load` and Python's
// Dataset.image() both use it.
//
//   size=224              the shorter side becomes 224, the middle is cut out
//   size=224,crop=none    the whole image becomes 224 x 224
//   normalize=imagenet    float32, unless dtype says float16
//
// A value; one thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/transform.h"

namespace millrace::decode {

class ImageDescription {
 public:
  // size=224 or 224x160 (width x height), resize=N, crop=, flip, normalize=, layout=, dtype=, channels=; flip
  // has no value. The message of an error begins with the name.
  Status set(std::string_view name, std::string_view value);
  // One value for each channel, for each colour (opacity stays from 0 to 1), or one for all.
  void normalize(std::vector<float> mean, std::vector<float> deviation);
  // kRandomResized: the share of the image's area, and width by height.
  void set_random(std::pair<double, double> scale, std::pair<double, double> ratio);

  Result<decode::TransformSpec> finish() const;

 private:
  Status set_size(std::string_view value);

  decode::TransformSpec spec_;
  std::optional<decode::TransformSpec::Crop> crop_;
  std::optional<decode::TransformSpec::Type> type_;
  std::vector<float> mean_;
  std::vector<float> deviation_;
};

// The words for values: "HWC", "rgb".
std::string_view image_word(decode::TransformSpec::Layout layout);
std::string_view image_word(decode::Channels channels);

}  // namespace millrace::decode
