// The two passes. Weights have 22 bits, samples 8: sums fit 32 bits. AVX2 multiplies pairs of 16-bit numbers,
// so a weight is taken as two halves of 11 bits whose sums are put together at the end: exact, hence equal to
// the plain form.
#include "decode/resample_passes.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::decode {

namespace {

constexpr int32_t kHalf = 1 << (Weights::kPrecision - 1);

template <size_t kChannels>
void sum_pixel(const uint8_t* in, const int32_t* weights, uint32_t taps, uint8_t* out) {
  for (size_t channel = 0; channel < kChannels; ++channel) {
    int32_t sum = kHalf;
    for (uint32_t i = 0; i < taps; ++i) sum += in[i * kChannels + channel] * weights[i];
    out[channel] = static_cast<uint8_t>(sum >> Weights::kPrecision);
  }
}

template <size_t kChannels>
void across_row(const uint8_t* in, uint32_t left, const Weights& weights, uint32_t from, uint8_t* out) {
  for (uint32_t x = from; x < weights.places(); ++x) {
    const uint8_t* first = in + (weights.first(x) - left) * kChannels;
    sum_pixel<kChannels>(first, weights.fixed(x), weights.taps(x), out + x * kChannels);
  }
}

template <size_t kChannels>
void across_rows(const PixelsView& in, uint32_t left, const Weights& weights, Pixels& out) {
  for (uint32_t y = 0; y < in.size.height; ++y) {
    across_row<kChannels>(in.row(y), left, weights, 0, out.row(y));
  }
}

// The rows that one row of the result is summed from.
struct Column {
  const uint8_t* first;
  size_t row_bytes;
  const int32_t* weights;
  uint32_t taps;
};

void down_bytes(const Column& column, size_t from, Pixels& line) {
  uint8_t* out = line.row(0);
  for (size_t at = from; at < line.row_bytes(); ++at) {
    int32_t sum = kHalf;
    for (uint32_t i = 0; i < column.taps; ++i)
      sum += column.first[i * column.row_bytes + at] * column.weights[i];
    out[at] = static_cast<uint8_t>(sum >> Weights::kPrecision);
  }
}

#if defined(__x86_64__)

#define MR_AVX2 __attribute__((target("avx2"), always_inline)) inline

// Picks two neighbouring pixels, from byte `from` on, as pairs of 16-bit samples of one channel.
template <size_t kChannels>
__attribute__((target("avx2"))) __m256i pair_up(size_t from) {
  alignas(16) std::array<int8_t, 16> order;
  order.fill(-1);
  for (size_t channel = 0; channel < kChannels; ++channel) {
    order[channel * 4] = static_cast<int8_t>(from + channel);
    order[channel * 4 + 2] = static_cast<int8_t>(from + kChannels + channel);
  }
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(order.data())));
}

constexpr uint32_t kRows = 4;

struct RowSet {
  const uint8_t* in[kRows];
  uint8_t* out[kRows];
};

// Sums of two rows, one in each half of the registers.
struct PairSums {
  __m256i high;
  __m256i low;
};

// Eight bytes, or sixteen, of two rows.
MR_AVX2 __m256i load_narrow(const uint8_t* upper, const uint8_t* lower) {
  return _mm256_set_m128i(_mm_loadu_si64(lower), _mm_loadu_si64(upper));
}

MR_AVX2 __m256i load_wide(const uint8_t* upper, const uint8_t* lower) {
  return _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(lower),
                             reinterpret_cast<const __m128i*>(upper));
}

MR_AVX2 void add_pair(PairSums& sums, __m256i samples, int32_t high, int32_t low) {
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(samples, _mm256_set1_epi32(high)));
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(samples, _mm256_set1_epi32(low)));
}

MR_AVX2 __m256i finish(const PairSums& sums) {
  const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(sums.high, Weights::kLowBits), sums.low);
  return _mm256_srli_epi32(sum, Weights::kPrecision);
}

// Four bytes whatever the channels: what is too much is overwritten by the next pixel or falls behind the
// row.
MR_AVX2 void put_pixels(const PairSums& above, const PairSums& below, const RowSet& rows, size_t at) {
  const __m256i words = _mm256_packus_epi32(finish(above), finish(below));
  const __m256i bytes = _mm256_packus_epi16(words, words);
  const __m128i first = _mm256_castsi256_si128(bytes);
  const __m128i second = _mm256_extracti128_si256(bytes, 1);
  _mm_storeu_si32(rows.out[0] + at, first);
  _mm_storeu_si32(rows.out[1] + at, second);
  _mm_storeu_si32(rows.out[2] + at, _mm_srli_epi64(first, 32));
  _mm_storeu_si32(rows.out[3] + at, _mm_srli_epi64(second, 32));
}

// Four rows at once, up to column `end`. Every column takes the same number of pairs, the last of them
// perhaps with weight zero: a count that changes from column to column costs more in mispredicted branches.
// kPairs 0: at run time.
template <size_t kChannels, uint32_t kPairs>
__attribute__((target("avx2"))) void across_four(const RowSet& rows, uint32_t left, const Weights& weights,
                                                 uint32_t end) {
  const uint32_t pairs = kPairs > 0 ? kPairs : (weights.most_taps() + 1) / 2;
  const __m256i half = _mm256_set1_epi32(kHalf);
  const __m256i order = pair_up<kChannels>(0);
  const __m256i next_order = pair_up<kChannels>(2 * kChannels);
  for (uint32_t x = 0; x < end; ++x) {
    size_t at = (weights.first(x) - left) * kChannels;
    const int32_t* high = weights.high(x);
    const int32_t* low = weights.low(x);
    PairSums above{_mm256_setzero_si256(), half};
    PairSums below = above;
    uint32_t i = 0;
    for (; i + 2 <= pairs; i += 2, at += 4 * kChannels) {
      const __m256i upper = load_wide(rows.in[0] + at, rows.in[1] + at);
      const __m256i lower = load_wide(rows.in[2] + at, rows.in[3] + at);
      add_pair(above, _mm256_shuffle_epi8(upper, order), high[i], low[i]);
      add_pair(below, _mm256_shuffle_epi8(lower, order), high[i], low[i]);
      add_pair(above, _mm256_shuffle_epi8(upper, next_order), high[i + 1], low[i + 1]);
      add_pair(below, _mm256_shuffle_epi8(lower, next_order), high[i + 1], low[i + 1]);
    }
    if (i < pairs) {
      add_pair(above, _mm256_shuffle_epi8(load_narrow(rows.in[0] + at, rows.in[1] + at), order), high[i],
               low[i]);
      add_pair(below, _mm256_shuffle_epi8(load_narrow(rows.in[2] + at, rows.in[3] + at), order), high[i],
               low[i]);
    }
    put_pixels(above, below, rows, x * kChannels);
  }
}

// The bytes that a column loads, from its first pixel on: sixteen for two pairs, eight for an odd last one.
template <size_t kChannels>
size_t loaded_bytes(uint32_t pairs) {
  const size_t narrow = pairs % 2 == 1 ? (pairs - 1) * kChannels * 2 + 8 : 0;
  const size_t wide = pairs >= 2 ? (pairs / 2 - 1) * kChannels * 4 + 16 : 0;
  return std::max(narrow, wide);
}

// Columns whose loads stay inside the row.
template <size_t kChannels>
uint32_t count_inside(const Weights& weights, uint32_t left, size_t width) {
  const size_t loaded = loaded_bytes<kChannels>((weights.most_taps() + 1) / 2);
  uint32_t end = weights.places();
  while (end > 0 && (weights.first(end - 1) - left) * kChannels + loaded > width * kChannels) --end;
  return end;
}

template <size_t kChannels>
void across_rows_avx2(const PixelsView& in, uint32_t left, const Weights& weights, Pixels& out) {
  const uint32_t end = count_inside<kChannels>(weights, left, in.size.width);
  const uint32_t pairs = (weights.most_taps() + 1) / 2;
  const auto across = pairs == 1   ? across_four<kChannels, 1>
                      : pairs == 2 ? across_four<kChannels, 2>
                      : pairs == 3 ? across_four<kChannels, 3>
                                   : across_four<kChannels, 0>;
  for (uint32_t y = 0; y < in.size.height; y += kRows) {
    RowSet rows;
    for (uint32_t i = 0; i < kRows; ++i) {
      // Where fewer rows are left the last is computed several times.
      const uint32_t row = std::min(y + i, in.size.height - 1);
      rows.in[i] = in.row(row);
      rows.out[i] = out.row(row);
    }
    across(rows, left, weights, end);
    for (uint32_t i = 0; i < kRows; ++i) across_row<kChannels>(rows.in[i], left, weights, end, rows.out[i]);
  }
}

struct Sums {
  __m256i high[4];
  __m256i low[4];
};

MR_AVX2 void add_rows(Sums& sums, __m256i a, __m256i b, int32_t high, int32_t low) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i front = _mm256_unpacklo_epi8(a, b);
  const __m256i back = _mm256_unpackhi_epi8(a, b);
  const __m256i samples[4] = {_mm256_unpacklo_epi8(front, zero), _mm256_unpackhi_epi8(front, zero),
                              _mm256_unpacklo_epi8(back, zero), _mm256_unpackhi_epi8(back, zero)};
  for (int i = 0; i < 4; ++i) {
    sums.high[i] = _mm256_add_epi32(sums.high[i], _mm256_madd_epi16(samples[i], _mm256_set1_epi32(high)));
    sums.low[i] = _mm256_add_epi32(sums.low[i], _mm256_madd_epi16(samples[i], _mm256_set1_epi32(low)));
  }
}

MR_AVX2 __m256i finish(const Sums& sums) {
  __m256i whole[4];
  for (int i = 0; i < 4; ++i) {
    whole[i] = _mm256_add_epi32(_mm256_slli_epi32(sums.high[i], Weights::kLowBits), sums.low[i]);
    whole[i] = _mm256_srli_epi32(whole[i], Weights::kPrecision);
  }
  return _mm256_packus_epi16(_mm256_packus_epi32(whole[0], whole[1]),
                             _mm256_packus_epi32(whole[2], whole[3]));
}

__attribute__((target("avx2"))) size_t down_chunks(const uint8_t* first, size_t row_bytes,
                                                   const Weights& weights, uint32_t place, Pixels& line) {
  const uint32_t taps = weights.taps(place);
  const int32_t* high = weights.high(place);
  const int32_t* low = weights.low(place);
  uint8_t* out = line.row(0);
  size_t at = 0;
  for (; at + 32 <= line.row_bytes(); at += 32) {
    Sums sums;
    for (int i = 0; i < 4; ++i) {
      sums.high[i] = _mm256_setzero_si256();
      sums.low[i] = _mm256_set1_epi32(kHalf);
    }
    for (uint32_t i = 0; i < taps; i += 2) {
      const uint8_t* row = first + i * row_bytes + at;
      // Behind an odd last row its own bytes stand in, with weight zero.
      const uint8_t* next = i + 1 < taps ? row + row_bytes : row;
      const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
      const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(next));
      add_rows(sums, a, b, high[i / 2], low[i / 2]);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + at), finish(sums));
  }
  return at;
}

#endif

}  // namespace

void pass_across(const PixelsView& in, uint32_t left, const Weights& weights, Pixels& out) {
  switch (in.channels) {
    case Channels::kGray:
      return across_rows<1>(in, left, weights, out);
    case Channels::kRgb:
      return across_rows<3>(in, left, weights, out);
    case Channels::kRgba:
      return across_rows<4>(in, left, weights, out);
  }
}

void pass_down(const uint8_t* first, size_t row_bytes, const Weights& weights, uint32_t place, Pixels& line) {
  down_bytes({first, row_bytes, weights.fixed(place), weights.taps(place)}, 0, line);
}

#if defined(__x86_64__)

void pass_across_avx2(const PixelsView& in, uint32_t left, const Weights& weights, Pixels& out) {
  switch (in.channels) {
    case Channels::kGray:
      return across_rows_avx2<1>(in, left, weights, out);
    case Channels::kRgb:
      return across_rows_avx2<3>(in, left, weights, out);
    case Channels::kRgba:
      return across_rows_avx2<4>(in, left, weights, out);
  }
}

void pass_down_avx2(const uint8_t* first, size_t row_bytes, const Weights& weights, uint32_t place,
                    Pixels& line) {
  const size_t done = down_chunks(first, row_bytes, weights, place, line);
  down_bytes({first, row_bytes, weights.fixed(place), weights.taps(place)}, done, line);
}

#else

void pass_across_avx2(const PixelsView& in, uint32_t left, const Weights& weights, Pixels& out) {
  pass_across(in, left, weights, out);
}

void pass_down_avx2(const uint8_t* first, size_t row_bytes, const Weights& weights, uint32_t place,
                    Pixels& line) {
  pass_down(first, row_bytes, weights, place, line);
}

#endif

}  // namespace millrace::decode
