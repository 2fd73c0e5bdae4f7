// ImageCheck: whether a field that is called an image is one, and whole. One thread.
#pragma once

#include <string_view>

#include "base/result.h"
#include "decode/image.h"

namespace millrace::decode {

class ImageCheck {
 public:
  // Nothing is said of fields that are not images by their name (jpg, thumb.png, …).
  Status check(std::string_view field, std::string_view bytes);

 private:
  ImageDecoder decoder_;
  Pixels pixels_;
};

}  // namespace millrace::decode
