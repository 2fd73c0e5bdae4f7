// Decodes at an eighth of the size, which reads every bit.
#include "decode/image_check.h"

namespace millrace::decode {

namespace {

// Names of fields whose content the decoder of images knows: jpg, thumb.png.
bool is_image(std::string_view field) {
  const std::string_view ending = field.substr(field.rfind('.') + 1);
  return ending == "jpg" || ending == "jpeg" || ending == "png" || ending == "webp";
}

}  // namespace

Status ImageCheck::check(std::string_view field, std::string_view bytes) {
  if (!is_image(field)) return {};
  if (bytes.empty()) return make_error(Code::kCorrupt, "the image is empty");
  if (!find_format(bytes)) return make_error(Code::kCorrupt, "its bytes are no JPEG, PNG or WebP image");
  // Every bit of a JPEG is read at any scale; at an eighth the rest costs little.
  DecodeOptions options;
  options.shrink_to = 1;
  return decoder_.decode(bytes, options, pixels_);
}

}  // namespace millrace::decode
