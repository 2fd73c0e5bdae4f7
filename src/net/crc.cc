// Folding: 64 bytes of message are replaced by 16 that have the same remainder, as fast as memory delivers
// them.
#include "net/crc.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <array>
#include <cstring>

namespace millrace::net {

namespace {

struct Polynomial {
  uint64_t reflected;
  int bits;
};

constexpr Polynomial polynomial_of(CrcKind kind) {
  switch (kind) {
    case CrcKind::kCrc32:
      return {0xedb88320, 32};
    case CrcKind::kCrc32c:
      return {0x82f63b78, 32};
    case CrcKind::kCrc64Nvme:
      return {0x9a6c9329ac4bc9b5, 64};
  }
  return {0, 0};
}

constexpr uint64_t step(uint64_t crc, uint64_t reflected) {
  return (crc & 1) != 0 ? (crc >> 1) ^ reflected : crc >> 1;
}

using Tables = std::array<std::array<uint64_t, 256>, 8>;

constexpr Tables make_tables(uint64_t reflected) {
  Tables tables{};
  for (uint64_t byte = 0; byte < 256; ++byte) {
    uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = step(crc, reflected);
    tables[0][byte] = crc;
  }
  for (size_t table = 1; table < 8; ++table) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint64_t before = tables[table - 1][byte];
      tables[table][byte] = tables[0][before & 255] ^ (before >> 8);
    }
  }
  return tables;
}

// x^power modulo the polynomial, reflected into 64 bits: what a stretch of message is multiplied with to move
// it `power` bits. One less, because the product of two reflected numbers comes out shifted by one.
constexpr uint64_t fold_constant(Polynomial polynomial, int power) {
  uint64_t value = uint64_t{1} << (polynomial.bits - 1);  // x^0, reflected
  for (int i = 0; i < power - 1; ++i) value = step(value, polynomial.reflected);
  return polynomial.bits == 32 ? value << 32 : value;
}

template <CrcKind kind>
struct Crc {
  static constexpr Polynomial kPolynomial = polynomial_of(kind);
  static constexpr Tables kTables = make_tables(kPolynomial.reflected);

  static uint64_t by_tables(uint64_t crc, const char* at, size_t size) {
    for (; size >= 8; at += 8, size -= 8) {
      uint64_t word;
      std::memcpy(&word, at, 8);
      word ^= crc;
      crc = kTables[7][word & 255] ^ kTables[6][(word >> 8) & 255] ^ kTables[5][(word >> 16) & 255] ^
            kTables[4][(word >> 24) & 255] ^ kTables[3][(word >> 32) & 255] ^ kTables[2][(word >> 40) & 255] ^
            kTables[1][(word >> 48) & 255] ^ kTables[0][word >> 56];
    }
    for (; size > 0; ++at, --size)
      crc = kTables[0][(crc ^ static_cast<unsigned char>(*at)) & 255] ^ (crc >> 8);
    return crc;
  }

#ifdef __x86_64__
  __attribute__((target("pclmul,sse4.1"))) static __m128i fold(__m128i block, __m128i constants,
                                                               __m128i next) {
    const __m128i early = _mm_clmulepi64_si128(block, constants, 0x00);
    const __m128i late = _mm_clmulepi64_si128(block, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(early, late), next);
  }

  __attribute__((target("pclmul,sse4.1"))) static uint64_t by_folding(uint64_t crc, const char* at,
                                                                      size_t size) {
    const auto load = [](const char* from) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    };
    const auto pair = [](int distance) {
      return _mm_set_epi64x(static_cast<int64_t>(fold_constant(kPolynomial, distance)),
                            static_cast<int64_t>(fold_constant(kPolynomial, distance + 64)));
    };
    static const __m128i kFour = pair(512);
    static const __m128i kOne = pair(128);
    const __m128i four = kFour;
    __m128i lanes[4] = {load(at), load(at + 16), load(at + 32), load(at + 48)};
    lanes[0] = _mm_xor_si128(lanes[0], _mm_set_epi64x(0, static_cast<int64_t>(crc)));
    for (at += 64, size -= 64; size >= 64; at += 64, size -= 64) {
      lanes[0] = fold(lanes[0], four, load(at));
      lanes[1] = fold(lanes[1], four, load(at + 16));
      lanes[2] = fold(lanes[2], four, load(at + 32));
      lanes[3] = fold(lanes[3], four, load(at + 48));
    }
    __m128i rest = lanes[0];
    for (int lane = 1; lane < 4; ++lane) rest = fold(rest, kOne, lanes[lane]);
    char last[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(last), rest);
    return by_tables(by_tables(0, last, sizeof last), at, size);
  }
#endif

  static uint64_t add(uint64_t crc, std::string_view bytes) {
#ifdef __x86_64__
    static const bool can_fold = __builtin_cpu_supports("pclmul") != 0;
    if (can_fold && bytes.size() >= 64) return by_folding(crc, bytes.data(), bytes.size());
#endif
    return by_tables(crc, bytes.data(), bytes.size());
  }
};

// The product of two residues, all reflected.
uint64_t multiply(Polynomial polynomial, uint64_t a, uint64_t b) {
  uint64_t product = 0;
  for (uint64_t bit = uint64_t{1} << (polynomial.bits - 1); bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = step(b, polynomial.reflected);
  }
  return product;
}

uint64_t mask_of(CrcKind kind) {
  return polynomial_of(kind).bits == 64 ? ~uint64_t{0} : 0xffffffff;
}

}  // namespace

uint64_t crc_start(CrcKind kind) {
  return mask_of(kind);
}

uint64_t crc_value(CrcKind kind, uint64_t crc) {
  return ~crc & mask_of(kind);
}

int crc_bytes(CrcKind kind) {
  return polynomial_of(kind).bits / 8;
}

uint64_t crc_combine(CrcKind kind, uint64_t value_a, uint64_t value_b, uint64_t bytes_of_b) {
  const Polynomial polynomial = polynomial_of(kind);
  // A moves up by the bits of B: it is multiplied with x to that power, made by squaring.
  uint64_t power = uint64_t{1} << (polynomial.bits - 1 - 8);  // x^8: one byte
  for (; bytes_of_b != 0; bytes_of_b >>= 1) {
    if ((bytes_of_b & 1) != 0) value_a = multiply(polynomial, value_a, power);
    power = multiply(polynomial, power, power);
  }
  return value_a ^ value_b;
}

uint64_t crc_add(CrcKind kind, uint64_t crc, std::string_view bytes) {
  switch (kind) {
    case CrcKind::kCrc32:
      return Crc<CrcKind::kCrc32>::add(crc, bytes);
    case CrcKind::kCrc32c:
      return Crc<CrcKind::kCrc32c>::add(crc, bytes);
    case CrcKind::kCrc64Nvme:
      return Crc<CrcKind::kCrc64Nvme>::add(crc, bytes);
  }
  return 0;
}

uint64_t crc_add_by_tables(CrcKind kind, uint64_t crc, std::string_view bytes) {
  switch (kind) {
    case CrcKind::kCrc32:
      return Crc<CrcKind::kCrc32>::by_tables(crc, bytes.data(), bytes.size());
    case CrcKind::kCrc32c:
      return Crc<CrcKind::kCrc32c>::by_tables(crc, bytes.data(), bytes.size());
    case CrcKind::kCrc64Nvme:
      return Crc<CrcKind::kCrc64Nvme>::by_tables(crc, bytes.data(), bytes.size());
  }
  return 0;
}

}  // namespace millrace::net
