// Implements the CRCs. ISA-L has the two of 32 bits. The one of 64 bits is folded here: 64 bytes of message
// are replaced by 16 that have the same remainder, with carry-less multiplication; machines without it use
// tables of eight.
#include "base/crc.h"

#include <isa-l/crc.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>

namespace millrace {

namespace {

constexpr uint64_t kMostAtOnce = 1 << 30;  // ISA-L takes the length of CRC32C as an int

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

constexpr Polynomial kNvme = polynomial_of(CrcKind::kCrc64Nvme);

constexpr uint64_t step(uint64_t value, uint64_t reflected) {
  return (value & 1) != 0 ? (value >> 1) ^ reflected : value >> 1;
}

using Tables = std::array<std::array<uint64_t, 256>, 8>;

constexpr Tables make_tables(uint64_t reflected) {
  Tables tables{};
  for (uint64_t byte = 0; byte < 256; ++byte) {
    uint64_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = step(value, reflected);
    tables[0][byte] = value;
  }
  for (size_t table = 1; table < 8; ++table) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint64_t before = tables[table - 1][byte];
      tables[table][byte] = tables[0][before & 255] ^ (before >> 8);
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables(kNvme.reflected);

uint64_t by_tables(uint64_t value, std::string_view bytes) {
  const char* at = bytes.data();
  size_t size = bytes.size();
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= value;
    value = kTables[7][word & 255] ^ kTables[6][(word >> 8) & 255] ^ kTables[5][(word >> 16) & 255] ^
            kTables[4][(word >> 24) & 255] ^ kTables[3][(word >> 32) & 255] ^ kTables[2][(word >> 40) & 255] ^
            kTables[1][(word >> 48) & 255] ^ kTables[0][word >> 56];
  }
  for (; size > 0; ++at, --size)
    value = kTables[0][(value ^ static_cast<unsigned char>(*at)) & 255] ^ (value >> 8);
  return value;
}

#ifdef __x86_64__

// x^power modulo the polynomial, reflected: what a stretch of message is multiplied with to move it `power`
// bits. One less, because the product of two reflected numbers comes out shifted by one.
constexpr uint64_t fold_constant(int power) {
  uint64_t value = uint64_t{1} << 63;  // x^0, reflected
  for (int i = 0; i < power - 1; ++i) value = step(value, kNvme.reflected);
  return value;
}

__attribute__((target("pclmul,sse4.1"))) __m128i fold(__m128i block, __m128i constants, __m128i next) {
  const __m128i early = _mm_clmulepi64_si128(block, constants, 0x00);
  const __m128i late = _mm_clmulepi64_si128(block, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(early, late), next);
}

// Of 64 bytes and more.
__attribute__((target("pclmul,sse4.1"))) uint64_t by_folding(uint64_t value, std::string_view bytes) {
  constexpr uint64_t kFour[2] = {fold_constant(512 + 64), fold_constant(512)};
  constexpr uint64_t kOne[2] = {fold_constant(128 + 64), fold_constant(128)};
  const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const char* at = bytes.data();
  size_t size = bytes.size();
  const __m128i four = load(kFour);
  __m128i lanes[4] = {load(at), load(at + 16), load(at + 32), load(at + 48)};
  lanes[0] = _mm_xor_si128(lanes[0], _mm_set_epi64x(0, static_cast<int64_t>(value)));
  for (at += 64, size -= 64; size >= 64; at += 64, size -= 64) {
    lanes[0] = fold(lanes[0], four, load(at));
    lanes[1] = fold(lanes[1], four, load(at + 16));
    lanes[2] = fold(lanes[2], four, load(at + 32));
    lanes[3] = fold(lanes[3], four, load(at + 48));
  }
  __m128i rest = lanes[0];
  for (int lane = 1; lane < 4; ++lane) rest = fold(rest, load(kOne), lanes[lane]);
  char last[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(last), rest);
  return by_tables(by_tables(0, {last, sizeof last}), {at, size});
}

#endif

uint64_t crc64(uint64_t before, std::string_view bytes) {
#ifdef __x86_64__
  static const bool can_fold = __builtin_cpu_supports("pclmul") != 0;
  if (can_fold && bytes.size() >= 64) return ~by_folding(~before, bytes);
#endif
  return ~by_tables(~before, bytes);
}

// The product of two residues, all reflected.
uint64_t multiply(Polynomial polynomial, uint64_t a, uint64_t b) {
  uint64_t product = 0;
  for (uint64_t bit = uint64_t{1} << (polynomial.bits - 1); bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = step(b, polynomial.reflected);
  }
  return product;
}

}  // namespace

uint64_t crc_add(CrcKind kind, uint64_t before, std::string_view bytes) {
  if (kind == CrcKind::kCrc64Nvme) return crc64(before, bytes);
  auto value = static_cast<uint32_t>(before);
  for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(bytes.size(), kMostAtOnce))) {
    const std::string_view now = bytes.substr(0, kMostAtOnce);
    auto* const start = reinterpret_cast<unsigned char*>(const_cast<char*>(now.data()));
    value = kind == CrcKind::kCrc32 ? crc32_gzip_refl(value, start, now.size())
                                    : ~crc32_iscsi(start, static_cast<int>(now.size()), ~value);
  }
  return value;
}

int crc_bytes(CrcKind kind) {
  return polynomial_of(kind).bits / 8;
}

uint64_t crc_join(CrcKind kind, uint64_t first, uint64_t second, uint64_t second_size) {
  const Polynomial polynomial = polynomial_of(kind);
  // The first moves up by the bits of the second: it is multiplied with x to that power, made by squaring.
  uint64_t power = uint64_t{1} << (polynomial.bits - 1 - 8);  // x^8: one byte
  for (; second_size != 0; second_size >>= 1) {
    if ((second_size & 1) != 0) first = multiply(polynomial, first, power);
    power = multiply(polynomial, power, power);
  }
  return first ^ second;
}

}  // namespace millrace
