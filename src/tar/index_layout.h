// The bytes of a shard index: offsets of the header's words and sizes of the rows, in one place for the
// builder and the reader. docs/formats/shard-index.md says the same in words.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tar/format.h"

namespace millrace::tar::layout {

inline constexpr std::string_view kMagic = "MRSHARD\n";
inline constexpr uint32_t kVersion = 2;

// Header, little-endian: magic, version u32, compression u8, key rule u8, zero u16, then words of 8 bytes.
inline constexpr size_t kVersionAt = 8;
inline constexpr size_t kCompressionAt = 12;
inline constexpr size_t kKeyRuleAt = 13;
inline constexpr size_t kZeroAt = 14;
inline constexpr size_t kStoredBytesAt = 16;
inline constexpr size_t kContentHashAt = 24;
inline constexpr size_t kTarBytesAt = 32;
inline constexpr size_t kSampleCountAt = 40;
inline constexpr size_t kFieldCountAt = 48;
inline constexpr size_t kNameCountAt = 56;
inline constexpr size_t kNameBytesAt = 64;
inline constexpr size_t kHeaderBytes = 72;

inline constexpr size_t kSampleRow = 28;  // offset u64, size u64, key hash u64, first field u32
// place u64 (name << 40 | blocks from the sample's start), size u64, CRC32C u32
inline constexpr size_t kFieldRow = 20;
inline constexpr size_t kHashRow = 4;  // sample u32, rows ordered by key hash, then by sample
inline constexpr size_t kChecksumBytes = 8;

inline constexpr uint64_t kMaxRows = 0xffffffff;
inline constexpr int kNameShift = 40;
inline constexpr uint64_t kMaxNames = uint64_t{1} << (64 - kNameShift);
inline constexpr uint64_t kBlocksMask = (uint64_t{1} << kNameShift) - 1;

template <typename Word>
Word get(std::string_view bytes, size_t at) {
  Word word;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

template <typename Word>
void put(std::string& bytes, Word word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
}

}  // namespace millrace::tar::layout
