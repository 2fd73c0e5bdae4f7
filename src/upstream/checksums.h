// What an upstream says about the bytes of an object, and comparing it with those that came.
//
// x-amz-checksum-… of the whole content, x-goog-hash, x-millrace-crc32c, Content-MD5, and the ETag of an S3
// server where it is an MD5. Of several the one that costs least is taken. Nothing that cannot be read
// counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/digest.h"
#include "net/signing.h"

namespace millrace::upstream {

struct Checksum {
  net::DigestKind kind = net::DigestKind::kCrc32c;
  std::string value;   // raw bytes
  std::string header;  // that said it
};

// As it is written down: the highest byte first.
std::string crc32c_bytes(uint32_t crc32c);

// `etags`: whether an ETag that looks like an MD5 is one, as it is on S3 servers.
enum class Etags { kMayBeMd5, kOpaque };
std::optional<Checksum> find_checksum(const std::vector<net::HeaderField>& headers, Etags etags);

// The bytes in order, on their way to a writer. One thread at a time.
class Verifier {
 public:
  explicit Verifier(std::optional<Checksum> expected);
  void add(std::string_view bytes);
  // `crc32c`: of all bytes, which the writer has computed anyway. kCorrupt where they are not those.
  Status finish(uint32_t crc32c);

 private:
  const std::optional<Checksum> expected_;
  std::optional<net::Digest> digest_;
};

}  // namespace millrace::upstream
