// hash64 and Hasher: XXH3 with 64 bits, the hash of everything we store or place by.
//
// The value of a byte string is the same on every machine. Not cryptographic.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
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

// The members of the xxHash family that clients send as checksums.
enum class XxKind { kXxh64, kXxh3, kXxh128 };

// The digest of a stream in the family's canonical form: 8 or 16 bytes, the highest first.
class XxDigest {
 public:
  explicit XxDigest(XxKind kind);
  XxDigest(XxDigest&&) noexcept;
  XxDigest& operator=(XxDigest&&) noexcept;
  ~XxDigest();

  void add(std::string_view bytes);
  std::string value() const;

 private:
  struct State;
  XxKind kind_;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
