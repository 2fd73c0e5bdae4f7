// Takes RGB rows apart with AVX2. Two overlapping loads cover the 24 bytes of eight pixels exactly; shuffles
// pick each channel out of them, in either direction, so that flipping costs nothing.
#include "decode/planar.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::decode {

#if defined(__x86_64__)

namespace {

constexpr uint32_t kPixels = 8;

// Which byte of the first load (0 to 15) and of the second (8 to 23) each place takes.
struct Shuffles {
  alignas(16) std::array<std::array<int8_t, 16>, 3> front;
  alignas(16) std::array<std::array<int8_t, 16>, 3> back;
};

constexpr Shuffles make_shuffles(bool flipped) {
  Shuffles shuffles{};
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t place = 0; place < 16; ++place) {
      const size_t pixel = flipped ? kPixels - 1 - place : place;
      const size_t byte = pixel * 3 + channel;
      const bool used = place < kPixels;
      shuffles.front[channel][place] = used && byte < 16 ? static_cast<int8_t>(byte) : int8_t{-1};
      shuffles.back[channel][place] = used && byte >= 16 ? static_cast<int8_t>(byte - 8) : int8_t{-1};
    }
  }
  return shuffles;
}

constexpr Shuffles kForward = make_shuffles(false);
constexpr Shuffles kBackward = make_shuffles(true);

#define MR_AVX2 __attribute__((target("avx2,fma,f16c"), always_inline))

MR_AVX2 inline __m256 divide(__m256 value, __m256 divisor, __m256 inverse) {
  const __m256 guess = _mm256_mul_ps(value, inverse);
  const __m256 rest = _mm256_fnmadd_ps(guess, divisor, value);
  return _mm256_fmadd_ps(rest, inverse, guess);
}

struct Multiplied {
  const Scaling& scaling;
  MR_AVX2 __m256 operator()(__m128i samples, size_t channel) const {
    const __m256 whole = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(samples));
    const __m256 unit = divide(whole, _mm256_set1_ps(255.0F), _mm256_set1_ps(1.0F / 255.0F));
    const __m256 rest = _mm256_sub_ps(unit, _mm256_set1_ps(scaling.mean[channel]));
    return divide(rest, _mm256_set1_ps(scaling.deviation[channel]), _mm256_set1_ps(scaling.inverse[channel]));
  }
};

struct LookedUp {
  const Scaling& scaling;
  MR_AVX2 __m256 operator()(__m128i samples, size_t channel) const {
    return _mm256_i32gather_ps(scaling.floats[channel].data(), _mm256_cvtepu8_epi32(samples), 4);
  }
};

struct PutBytes {
  static constexpr size_t kItem = 1;
  MR_AVX2 void operator()(__m128i samples, size_t, std::byte* out) const {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), samples);
  }
};

template <typename Value>
struct PutFloats {
  static constexpr size_t kItem = 4;
  Value value;
  MR_AVX2 void operator()(__m128i samples, size_t channel, std::byte* out) const {
    _mm256_storeu_ps(reinterpret_cast<float*>(out), value(samples, channel));
  }
};

template <typename Value>
struct PutHalves {
  static constexpr size_t kItem = 2;
  Value value;
  MR_AVX2 void operator()(__m128i samples, size_t channel, std::byte* out) const {
    const __m128i halves = _mm256_cvtps_ph(value(samples, channel), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), halves);
  }
};

template <typename Put>
__attribute__((target("avx2,fma,f16c"))) uint32_t put(const uint8_t* in, const PlanarRow& row,
                                                      const Put& put_eight) {
  const Shuffles& shuffles = row.flipped ? kBackward : kForward;
  __m128i front[3];
  __m128i back[3];
  for (size_t channel = 0; channel < 3; ++channel) {
    front[channel] = _mm_load_si128(reinterpret_cast<const __m128i*>(shuffles.front[channel].data()));
    back[channel] = _mm_load_si128(reinterpret_cast<const __m128i*>(shuffles.back[channel].data()));
  }
  uint32_t x = 0;
  for (; x + kPixels <= row.width; x += kPixels, in += size_t{kPixels} * 3) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
    const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 8));
    std::byte* out = row.out + size_t{row.flipped ? row.width - kPixels - x : x} * Put::kItem;
    for (size_t channel = 0; channel < 3; ++channel) {
      const __m128i samples =
          _mm_or_si128(_mm_shuffle_epi8(first, front[channel]), _mm_shuffle_epi8(second, back[channel]));
      put_eight(samples, channel, out + channel * row.plane_bytes);
    }
  }
  return x;
}

}  // namespace

uint32_t put_planar_bytes_avx2(const uint8_t* in, const PlanarRow& row) {
  return put(in, row, PutBytes{});
}

uint32_t put_planar_floats_avx2(const uint8_t* in, const PlanarRow& row, const Scaling& scaling) {
  if (scaling.divides_by_multiplying) return put(in, row, PutFloats<Multiplied>{{scaling}});
  return put(in, row, PutFloats<LookedUp>{{scaling}});
}

uint32_t put_planar_halves_avx2(const uint8_t* in, const PlanarRow& row, const Scaling& scaling) {
  if (scaling.divides_by_multiplying) return put(in, row, PutHalves<Multiplied>{{scaling}});
  return put(in, row, PutHalves<LookedUp>{{scaling}});
}

#else

uint32_t put_planar_bytes_avx2(const uint8_t*, const PlanarRow&) {
  return 0;
}

uint32_t put_planar_floats_avx2(const uint8_t*, const PlanarRow&, const Scaling&) {
  return 0;
}

uint32_t put_planar_halves_avx2(const uint8_t*, const PlanarRow&, const Scaling&) {
  return 0;
}

#endif

}  // namespace millrace::decode
