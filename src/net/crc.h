// CRC32, CRC32C and CRC64NVME by folding with carry-less multiplication. Pure.
//
// One algorithm for the three: they differ in polynomial and width only. Values are the plain registers:
// start with crc_start(), end with crc_value(). Machines without the instruction use tables of eight.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace::net {

enum class CrcKind { kCrc32, kCrc32c, kCrc64Nvme };

uint64_t crc_start(CrcKind kind);
uint64_t crc_add(CrcKind kind, uint64_t crc, std::string_view bytes);
uint64_t crc_value(CrcKind kind, uint64_t crc);
int crc_bytes(CrcKind kind);

// The final value of A followed by B from the final values of both, without their bytes.
uint64_t crc_combine(CrcKind kind, uint64_t value_a, uint64_t value_b, uint64_t bytes_of_b);

// crc_add without the special instruction, for machines that lack it and for tests.
uint64_t crc_add_by_tables(CrcKind kind, uint64_t crc, std::string_view bytes);

}  // namespace millrace::net
