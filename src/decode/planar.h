// One row of RGB pixels, taken apart into three planes: eight pixels at a time where the machine has AVX2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "decode/scaling.h"

namespace millrace::decode {

// Where a row of a plane begins, how far the next plane is, and which way the pixels run.
struct PlanarRow {
  std::byte* out = nullptr;  // of the first channel
  size_t plane_bytes = 0;
  uint32_t width = 0;
  bool flipped = false;
};

// Each writes the first pixels of `in` and says how many it wrote: a multiple of eight, the rest is the
// caller's. With `flipped` the first pixel goes to the end of the row. Only with Instructions::kAvx2.
uint32_t put_planar_bytes_avx2(const uint8_t* in, const PlanarRow& row);
uint32_t put_planar_floats_avx2(const uint8_t* in, const PlanarRow& row, const Scaling& scaling);
// Floats rounded to the nearest half.
uint32_t put_planar_halves_avx2(const uint8_t* in, const PlanarRow& row, const Scaling& scaling);

}  // namespace millrace::decode
