// crc32c: the checksum of every block, trailer and small object (Castagnoli; "123456789" gives e3069283).
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace::store {

// The checksum of what came before (`before`, 0 at the start) and these bytes behind it.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

// The checksum of two stretches joined, from the checksums of each and the length of the second.
uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t second_size);

}  // namespace millrace::store
