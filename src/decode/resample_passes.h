// The two passes of resampling, plain and with AVX2. Same weights, same bytes.
#pragma once

#include <cstdint>

#include "decode/pixels.h"
#include "decode/resample_weights.h"

namespace millrace::decode {

// Rows of the first pass are this much longer than their pixels: pixels are stored four bytes at a time.
constexpr uint32_t kSpareColumns = 3;

// Along the rows of `in`, whose first column is column `left` of the image, into rows of weights.places()
// pixels and the spare ones, which hold anything afterwards.
void pass_across(const PixelsView& in, uint32_t left, const Weights& weights, Pixels& out);
void pass_across_avx2(const PixelsView& in, uint32_t left, const Weights& weights, Pixels& out);

// Down the columns: one row of the result. `first` is the first row that counts for `place`.
void pass_down(const uint8_t* first, size_t row_bytes, const Weights& weights, uint32_t place, Pixels& line);
void pass_down_avx2(const uint8_t* first, size_t row_bytes, const Weights& weights, uint32_t place,
                    Pixels& line);

}  // namespace millrace::decode
