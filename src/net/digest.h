// Digests that clients speak: MD5, SHA-1, SHA-256, SHA-512, CRC32, CRC32C, CRC64NVME, the xxHash family,
// HMAC; and hex and base64.
//
// The fast ones come from OpenSSL and the CPU's own instructions. A Digest belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/crc.h"
#include "base/result.h"

namespace millrace::net {

enum class DigestKind {
  kMd5,
  kSha1,
  kSha256,
  kSha512,
  kCrc32,
  kCrc32c,
  kCrc64Nvme,
  kXxHash64,
  kXxHash3,
  kXxHash128
};
size_t digest_bytes(DigestKind kind);  // of the raw value

class Digest {
 public:
  explicit Digest(DigestKind kind);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();
  DigestKind kind() const { return kind_; }
  void add(std::string_view bytes);
  std::string finish();  // raw bytes, big-endian for the CRCs; used up afterwards

 private:
  struct State;
  DigestKind kind_;
  std::unique_ptr<State> state_;
};

std::string digest(DigestKind kind, std::string_view bytes);
std::string hmac_sha256(std::string_view key, std::string_view bytes);
std::string hmac_sha1(std::string_view key, std::string_view bytes);

std::optional<CrcKind> find_crc(DigestKind kind);  // which of the CRCs it is, if one

// "x-amz-checksum-crc32c" and so on (lower case).
std::string_view checksum_header(DigestKind kind);
std::string_view checksum_algorithm(DigestKind kind);                      // "CRC32C"
std::optional<DigestKind> find_checksum_kind(std::string_view header);     // by header name, lower case
std::optional<DigestKind> find_checksum_algorithm(std::string_view name);  // "CRC32C", any case

std::string to_hex(std::string_view bytes);
Result<std::string> from_hex(std::string_view text);
std::string to_base64(std::string_view bytes);
Result<std::string> from_base64(std::string_view text);
// Compares secrets without telling by its duration where they differ.
bool equal_secrets(std::string_view a, std::string_view b);
std::string random_bytes(size_t count);  // from the kernel, for secrets

}  // namespace millrace::net
