// Digests on top of OpenSSL and base/crc.h.
#include "net/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>

#include "base/hash.h"
#include "base/text.h"

namespace millrace::net {

std::optional<CrcKind> find_crc(DigestKind kind) {
  switch (kind) {
    case DigestKind::kCrc32:
      return CrcKind::kCrc32;
    case DigestKind::kCrc32c:
      return CrcKind::kCrc32c;
    case DigestKind::kCrc64Nvme:
      return CrcKind::kCrc64Nvme;
    default:
      return std::nullopt;
  }
}

size_t digest_bytes(DigestKind kind) {
  switch (kind) {
    case DigestKind::kMd5:
    case DigestKind::kXxHash128:
      return 16;
    case DigestKind::kSha1:
      return 20;
    case DigestKind::kSha256:
      return 32;
    case DigestKind::kSha512:
      return 64;
    case DigestKind::kCrc32:
    case DigestKind::kCrc32c:
      return 4;
    case DigestKind::kCrc64Nvme:
    case DigestKind::kXxHash64:
    case DigestKind::kXxHash3:
      return 8;
  }
  return 0;
}

namespace {

std::optional<XxKind> find_xx(DigestKind kind) {
  if (kind == DigestKind::kXxHash64) return XxKind::kXxh64;
  if (kind == DigestKind::kXxHash3) return XxKind::kXxh3;
  if (kind == DigestKind::kXxHash128) return XxKind::kXxh128;
  return std::nullopt;
}

const EVP_MD* algorithm_of(DigestKind kind) {
  // Fetched once: a fetch per digest costs more than hashing 4 KiB.
  static const EVP_MD* const md5 = EVP_MD_fetch(nullptr, "MD5", nullptr);
  static const EVP_MD* const sha1 = EVP_MD_fetch(nullptr, "SHA1", nullptr);
  static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  static const EVP_MD* const sha512 = EVP_MD_fetch(nullptr, "SHA512", nullptr);
  if (kind == DigestKind::kMd5) return md5;
  if (kind == DigestKind::kSha1) return sha1;
  return kind == DigestKind::kSha512 ? sha512 : sha256;
}

struct Named {
  DigestKind kind;
  std::string_view header;
  std::string_view algorithm;
};
constexpr std::array<Named, 10> kNamed = {{
    {DigestKind::kCrc32, "x-amz-checksum-crc32", "CRC32"},
    {DigestKind::kCrc32c, "x-amz-checksum-crc32c", "CRC32C"},
    {DigestKind::kCrc64Nvme, "x-amz-checksum-crc64nvme", "CRC64NVME"},
    {DigestKind::kSha1, "x-amz-checksum-sha1", "SHA1"},
    {DigestKind::kSha256, "x-amz-checksum-sha256", "SHA256"},
    {DigestKind::kSha512, "x-amz-checksum-sha512", "SHA512"},
    {DigestKind::kMd5, "x-amz-checksum-md5", "MD5"},
    {DigestKind::kXxHash64, "x-amz-checksum-xxhash64", "XXHASH64"},
    {DigestKind::kXxHash3, "x-amz-checksum-xxhash3", "XXHASH3"},
    {DigestKind::kXxHash128, "x-amz-checksum-xxhash128", "XXHASH128"},
}};

}  // namespace

struct Digest::State {
  struct Free {
    void operator()(EVP_MD_CTX* made) const { EVP_MD_CTX_free(made); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context;  // none for a CRC or xxHash
  std::optional<XxDigest> xx;
  uint64_t crc = 0;
};

Digest::Digest(DigestKind kind) : kind_(kind), state_(std::make_unique<State>()) {
  if (find_crc(kind)) return;
  if (const auto xx = find_xx(kind)) {
    state_->xx.emplace(*xx);
    return;
  }
  state_->context.reset(EVP_MD_CTX_new());
  MR_ASSERT(EVP_DigestInit_ex(state_->context.get(), algorithm_of(kind), nullptr) == 1,
            static_cast<int>(kind));
}

Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::add(std::string_view bytes) {
  if (const auto crc = find_crc(kind_)) {
    state_->crc = crc_add(*crc, state_->crc, bytes);
  } else if (state_->xx) {
    state_->xx->add(bytes);
  } else {
    EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size());
  }
}

std::string Digest::finish() {
  if (const auto crc = find_crc(kind_)) {
    std::string bytes;
    for (int byte = crc_bytes(*crc) - 1; byte >= 0; --byte)
      bytes += static_cast<char>(state_->crc >> (8 * byte));
    return bytes;
  }
  if (state_->xx) return state_->xx->value();
  std::string bytes(EVP_MAX_MD_SIZE, 0);
  unsigned size = 0;
  EVP_DigestFinal_ex(state_->context.get(), reinterpret_cast<unsigned char*>(bytes.data()), &size);
  bytes.resize(size);
  return bytes;
}

std::string digest(DigestKind kind, std::string_view bytes) {
  Digest one(kind);
  one.add(bytes);
  return one.finish();
}

namespace {
std::string hmac(const EVP_MD* kind, std::string_view key, std::string_view bytes) {
  std::string out(EVP_MAX_MD_SIZE, 0);
  unsigned size = 0;
  const auto* made = HMAC(kind, key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                          reinterpret_cast<unsigned char*>(out.data()), &size);
  MR_ASSERT(made != nullptr, size);
  out.resize(size);
  return out;
}
}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  return hmac(EVP_sha256(), key, bytes);
}

std::string hmac_sha1(std::string_view key, std::string_view bytes) {
  return hmac(EVP_sha1(), key, bytes);
}

std::string_view checksum_header(DigestKind kind) {
  for (const Named& named : kNamed) {
    if (named.kind == kind) return named.header;
  }
  return {};
}

std::string_view checksum_algorithm(DigestKind kind) {
  for (const Named& named : kNamed) {
    if (named.kind == kind) return named.algorithm;
  }
  return {};
}

std::optional<DigestKind> find_checksum_kind(std::string_view header) {
  for (const Named& named : kNamed) {
    if (named.header == header) return named.kind;
  }
  return std::nullopt;
}

std::optional<DigestKind> find_checksum_algorithm(std::string_view name) {
  const std::string lower = lower_case(name);
  for (const Named& named : kNamed) {
    if (lower_case(named.algorithm) == lower) return named.kind;
  }
  return std::nullopt;
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

Result<std::string> from_hex(std::string_view text) {
  const auto value = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (text.size() % 2 != 0) return make_error(Code::kInvalid, "an odd number of hex digits");
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t at = 0; at < text.size(); at += 2) {
    const int high = value(text[at]);
    const int low = value(text[at + 1]);
    if (high < 0 || low < 0) return make_error(Code::kInvalid, "\"{}\" is not hex", printable(text, 80));
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, 0);
  // EVP writes a terminating zero, for which std::string has the room.
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  constexpr size_t kMostBytes = 4 << 20;
  const auto bad = [&] { return make_error(Code::kInvalid, "\"{}\" is not base64", printable(text, 80)); };
  if (text.size() % 4 != 0 || text.size() > kMostBytes) return bad();
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  // OpenSSL forgives spaces around and stray characters; a checksum that is not exact is no checksum.
  for (const char c : text.substr(0, text.size() - padding)) {
    const bool good =
        (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
    if (!good) return bad();
  }
  if (text.empty()) return std::string();
  std::string bytes(text.size() / 4 * 3, 0);
  const int size =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (size < 0) return bad();
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(size_t count) {
  std::string bytes(count, 0);
  MR_ASSERT(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1, count);
  return bytes;
}

}  // namespace millrace::net
