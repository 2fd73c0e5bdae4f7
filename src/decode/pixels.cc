// Implements Pixels, whose memory is used again from image to image.
#include "decode/pixels.h"

namespace millrace::decode {

void Pixels::resize(Size size, Channels channels) {
  size_ = size;
  channels_ = channels;
  if (byte_count() <= capacity_) return;
  bytes_.reset();
  capacity_ = 0;
  bytes_ = std::make_unique_for_overwrite<uint8_t[]>(byte_count());
  capacity_ = byte_count();
}

}  // namespace millrace::decode
