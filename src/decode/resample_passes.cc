// Weights have 22 bits, samples 8: sums fit 32 bits. AVX2 multiplies pairs of 16-bit numbers, so a weight is
// taken as two halves of 11 bits whose sums are put together at the end: exact, hence equal to the plain
// form.
#include "decode/resample_passes.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/assert.h"

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

void down_bytes(const uint8_t* first, size_t row_bytes, const int32_t* weights, uint32_t taps, size_t from,
                Pixels& line) {
  uint8_t* out = line.row(0);
  for (size_t at = from; at < line.row_bytes(); ++at) {
    int32_t sum = kHalf;
    for (uint32_t i = 0; i < taps; ++i) sum += first[i * row_bytes + at] * weights[i];
    out[at] = static_cast<uint8_t>(sum >> Weights::kPrecision);
  }
}

#if defined(__x86_64__)

// Two neighbouring pixels of a row, eight bytes from memory, as pairs of 16-bit samples of one channel.
template <size_t kChannels>
__attribute__((target("avx2"))) __m256i pair_up() {
  constexpr char kNone = -1;
  constexpr char kStep = kChannels;
  const auto low = [](size_t channel) { return channel < kChannels ? static_cast<char>(channel) : kNone; };
  const auto high = [](size_t channel) {
    return channel < kChannels ? static_cast<char>(channel + kStep) : kNone;
  };
  const __m128i half = _mm_setr_epi8(low(0), kNone, high(0), kNone, low(1), kNone, high(1), kNone, low(2),
                                     kNone, high(2), kNone, low(3), kNone, high(3), kNone);
  return _mm256_broadcastsi128_si256(half);
}

// Two rows at once, one in each half of the registers, up to column `end`.
template <size_t kChannels>
__attribute__((target("avx2"))) void across_two(const uint8_t* upper, const uint8_t* lower, uint32_t left,
                                                const Weights& weights, uint32_t end, uint8_t* upper_out,
                                                uint8_t* lower_out) {
  const __m256i order = pair_up<kChannels>();
  for (uint32_t x = 0; x < end; ++x) {
    const size_t at = (weights.first(x) - left) * kChannels;
    const uint32_t pairs = (weights.taps(x) + 1) / 2;
    const int32_t* high = weights.high(x);
    const int32_t* low = weights.low(x);
    __m256i high_sum = _mm256_setzero_si256();
    __m256i low_sum = _mm256_set1_epi32(kHalf);
    for (uint32_t i = 0; i < pairs; ++i) {
      const __m128i a = _mm_loadu_si64(upper + at + i * 2 * kChannels);
      const __m128i b = _mm_loadu_si64(lower + at + i * 2 * kChannels);
      const __m256i samples = _mm256_shuffle_epi8(_mm256_set_m128i(b, a), order);
      high_sum = _mm256_add_epi32(high_sum, _mm256_madd_epi16(samples, _mm256_set1_epi32(high[i])));
      low_sum = _mm256_add_epi32(low_sum, _mm256_madd_epi16(samples, _mm256_set1_epi32(low[i])));
    }
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high_sum, Weights::kLowBits), low_sum);
    sum = _mm256_srli_epi32(sum, Weights::kPrecision);
    sum = _mm256_packus_epi16(_mm256_packus_epi32(sum, sum), sum);
    const int32_t first = _mm256_extract_epi32(sum, 0);
    const int32_t second = _mm256_extract_epi32(sum, 4);
    std::memcpy(upper_out + x * kChannels, &first, kChannels);
    std::memcpy(lower_out + x * kChannels, &second, kChannels);
  }
}

// Places whose loads of eight bytes stay inside the row.
template <size_t kChannels>
uint32_t count_inside(const Weights& weights, uint32_t left, size_t width) {
  uint32_t end = weights.places();
  while (end > 0) {
    const uint32_t pairs = (weights.taps(end - 1) + 1) / 2;
    const size_t last_load = (weights.first(end - 1) - left + 2 * (pairs - 1)) * kChannels;
    if (last_load + 8 <= width * kChannels) break;
    --end;
  }
  return end;
}

template <size_t kChannels>
void across_rows_avx2(const PixelsView& in, uint32_t left, const Weights& weights, Pixels& out) {
  const uint32_t end = count_inside<kChannels>(weights, left, in.size.width);
  for (uint32_t y = 0; y < in.size.height; y += 2) {
    // Of an odd number of rows the last is computed twice.
    const uint32_t other = y + 1 < in.size.height ? y + 1 : y;
    across_two<kChannels>(in.row(y), in.row(other), left, weights, end, out.row(y), out.row(other));
    across_row<kChannels>(in.row(y), left, weights, end, out.row(y));
    across_row<kChannels>(in.row(other), left, weights, end, out.row(other));
  }
}

struct Sums {
  __m256i high[4];
  __m256i low[4];
};

__attribute__((target("avx2"), always_inline)) inline void add_rows(Sums& sums, __m256i a, __m256i b,
                                                                    int32_t high, int32_t low) {
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

__attribute__((target("avx2"), always_inline)) inline __m256i finish(const Sums& sums) {
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
  down_bytes(first, row_bytes, weights.fixed(place), weights.taps(place), 0, line);
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
  down_bytes(first, row_bytes, weights.fixed(place), weights.taps(place), done, line);
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
