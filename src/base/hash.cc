// Implements the hashes with XXH3, compiled in: short keys are hashed without a call through the shared
// library.
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

struct XxDigest::State {
  XXH64_state_t old;
  XXH3_state_t state;
};

XxDigest::XxDigest(XxKind kind) : kind_(kind), state_(std::make_unique<State>()) {
  if (kind == XxKind::kXxh64) XXH64_reset(&state_->old, 0);
  if (kind == XxKind::kXxh3) XXH3_64bits_reset(&state_->state);
  if (kind == XxKind::kXxh128) XXH3_128bits_reset(&state_->state);
}
XxDigest::XxDigest(XxDigest&&) noexcept = default;
XxDigest& XxDigest::operator=(XxDigest&&) noexcept = default;
XxDigest::~XxDigest() = default;

void XxDigest::add(std::string_view bytes) {
  if (kind_ == XxKind::kXxh64) XXH64_update(&state_->old, bytes.data(), bytes.size());
  if (kind_ == XxKind::kXxh3) XXH3_64bits_update(&state_->state, bytes.data(), bytes.size());
  if (kind_ == XxKind::kXxh128) XXH3_128bits_update(&state_->state, bytes.data(), bytes.size());
}

std::string XxDigest::value() const {
  if (kind_ == XxKind::kXxh128) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->state));
    return {reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest};
  }
  XXH64_canonical_t canonical;
  XXH64_canonicalFromHash(
      &canonical, kind_ == XxKind::kXxh64 ? XXH64_digest(&state_->old) : XXH3_64bits_digest(&state_->state));
  return {reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest};
}

}  // namespace millrace
