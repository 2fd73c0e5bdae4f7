// Random: the only source of order that is stored, sent or reproduced.
//
// xoshiro256** seeded through splitmix64, with our own bounded draw and shuffle, so the same seed gives
// the same order on every machine, compiler and library. Not for secrets. One thread each.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace millrace {

// A good 64-bit mixer (a bijection): also the keyed "random number at position i" of pure orders.
uint64_t mix(uint64_t value);

class Random {
 public:
  explicit Random(uint64_t seed);

  uint64_t next();
  uint64_t below(uint64_t limit);  // uniform in [0, limit); limit > 0
  double unit();                   // uniform in [0, 1), 53 bits

  template <typename T>
  void shuffle(std::span<T> values) {
    for (size_t left = values.size(); left > 1; --left) {
      std::swap(values[left - 1], values[below(left)]);
    }
  }

 private:
  uint64_t state_[4];
};

}  // namespace millrace
