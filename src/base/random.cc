// Implements xoshiro256** (Blackman and Vigna) and splitmix64, from their published definitions.
#include "base/random.h"

#include <bit>

#include "base/assert.h"

namespace millrace {

namespace {
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
}

uint64_t mix(uint64_t value) {
  value += kGolden;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) {
    word = mix(seed);
    seed += kGolden;
  }
}

uint64_t Random::next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::below(uint64_t limit) {
  MR_ASSERT(limit > 0);
  // Multiply-and-reject: exact, and the rejection loop is almost never entered.
  using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(next()) * limit;
  if (static_cast<uint64_t>(product) < limit) {
    const uint64_t threshold = (0 - limit) % limit;
    while (static_cast<uint64_t>(product) < threshold) product = static_cast<Wide>(next()) * limit;
  }
  return static_cast<uint64_t>(product >> 64);
}

double Random::unit() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

}  // namespace millrace
