// Rows from one kind of samples to another, as PIL's convert() computes them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::decode {

// Weights of ITU-R 601 with 16 bits after the point.
inline uint8_t luma(uint32_t red, uint32_t green, uint32_t blue) {
  return static_cast<uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

inline void rgb_to_gray(const uint8_t* in, size_t width, uint8_t* out) {
  for (size_t x = 0; x < width; ++x, in += 3) out[x] = luma(in[0], in[1], in[2]);
}

// Four inks, inverted: 255 is no ink.
inline void cmyk_to_rgb(const uint8_t* in, size_t width, uint8_t* out) {
  for (size_t x = 0; x < width; ++x, in += 4, out += 3) {
    const uint32_t light = in[3];
    for (size_t i = 0; i < 3; ++i) {
      const uint32_t product = (255U - in[i]) * light + 128;
      out[i] = static_cast<uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

inline void rgb_to_rgba(const uint8_t* in, size_t width, uint8_t* out) {
  for (size_t x = 0; x < width; ++x, in += 3, out += 4) {
    out[0] = in[0];
    out[1] = in[1];
    out[2] = in[2];
    out[3] = 255;
  }
}

}  // namespace millrace::decode
