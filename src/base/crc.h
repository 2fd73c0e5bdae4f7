// CRC32, CRC32C and CRC64NVME: the checksums of stored bytes and of requests. Pure.
//
// Values are finished ones, as they are written down ("123456789" has CRC32C e3069283); nothing has 0.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

enum class CrcKind { kCrc32, kCrc32c, kCrc64Nvme };

// The checksum of what came before (`before`, 0 at the start) and these bytes behind it.
uint64_t crc_add(CrcKind kind, uint64_t before, std::string_view bytes);

// The checksum of two stretches joined, from the checksums of each and the length of the second.
uint64_t crc_join(CrcKind kind, uint64_t first, uint64_t second, uint64_t second_size);

int crc_bytes(CrcKind kind);

// CRC32C is that of everything we store.
inline uint32_t crc32c(std::string_view bytes, uint32_t before = 0) {
  return static_cast<uint32_t>(crc_add(CrcKind::kCrc32c, before, bytes));
}
inline uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t second_size) {
  return static_cast<uint32_t>(crc_join(CrcKind::kCrc32c, first, second, second_size));
}

}  // namespace millrace
