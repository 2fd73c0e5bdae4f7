// hash64 and Hasher: XXH3 with 64 bits, the hash of everything we store or place by.
//
// The value of a byte string is the same on every machine. Not cryptographic.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace millrace {

uint64_t hash64(std::string_view bytes);
uint64_t hash64(std::string_view bytes, uint64_t seed);

// The hash of a stream, fed piece by piece; value() equals hash64 of the pieces joined.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  void add(std::string_view bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
