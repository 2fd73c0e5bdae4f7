// XXH3, compiled in: short keys are hashed without a call through the shared library.
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace {

uint64_t hash64(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

struct Hasher::State {
  XXH3_state_t state;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->state);
}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::add(std::string_view bytes) {
  XXH3_64bits_update(&state_->state, bytes.data(), bytes.size());
}
uint64_t Hasher::value() const {
  return XXH3_64bits_digest(&state_->state);
}

}  // namespace millrace
