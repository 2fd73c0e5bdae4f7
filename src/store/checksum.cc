// ISA-L for the bytes; joining by powers of the shift-by-one-bit matrix over GF(2).
#include "store/checksum.h"

#include <isa-l/crc.h>

#include <array>

namespace millrace::store {

namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr uint64_t kMostAtOnce = 1 << 30;     // ISA-L takes the length as an int

using Matrix = std::array<uint32_t, 32>;

constexpr uint32_t times(const Matrix& matrix, uint32_t vector) {
  uint32_t sum = 0;
  for (size_t bit = 0; vector != 0; ++bit, vector >>= 1) {
    if ((vector & 1) != 0) sum ^= matrix[bit];
  }
  return sum;
}

constexpr Matrix squared(const Matrix& matrix) {
  Matrix square{};
  for (size_t bit = 0; bit < 32; ++bit) square[bit] = times(matrix, matrix[bit]);
  return square;
}

// powers[n] moves a checksum over 2^n zero bytes.
constexpr std::array<Matrix, 64> make_powers() {
  Matrix one_bit{};
  one_bit[0] = kPolynomial;
  for (size_t bit = 1; bit < 32; ++bit) one_bit[bit] = uint32_t{1} << (bit - 1);
  std::array<Matrix, 64> powers{};
  powers[0] = squared(squared(squared(one_bit)));
  for (size_t n = 1; n < 64; ++n) powers[n] = squared(powers[n - 1]);
  return powers;
}

const std::array<Matrix, 64> kPowers = make_powers();

}  // namespace

uint32_t crc32c(std::string_view bytes, uint32_t before) {
  uint32_t state = ~before;
  while (!bytes.empty()) {
    const std::string_view now = bytes.substr(0, kMostAtOnce);
    auto* start = reinterpret_cast<unsigned char*>(const_cast<char*>(now.data()));
    state = crc32_iscsi(start, static_cast<int>(now.size()), state);
    bytes.remove_prefix(now.size());
  }
  return ~state;
}

uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t second_size) {
  for (size_t n = 0; second_size != 0; ++n, second_size >>= 1) {
    if ((second_size & 1) != 0) first = times(kPowers[n], first);
  }
  return first ^ second;
}

}  // namespace millrace::store
