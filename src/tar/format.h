// The 512-byte tar header block: where its fields are, how its numbers and its checksum work.
//
// Covers V7, POSIX ustar and GNU headers. Pure functions on bytes; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::tar {

inline constexpr uint64_t kBlock = 512;

constexpr uint64_t padded(uint64_t size) {
  return (size + kBlock - 1) / kBlock * kBlock;
}

// One header block as it lies in an archive.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char device_major[8];
  char device_minor[8];
  char prefix[155];
  char rest[12];
};
static_assert(sizeof(Header) == kBlock);

inline constexpr char kTypeFile = '0';
inline constexpr char kTypeOldFile = '\0';
inline constexpr char kTypeHardLink = '1';
inline constexpr char kTypeSymbolicLink = '2';
inline constexpr char kTypeCharacterDevice = '3';
inline constexpr char kTypeBlockDevice = '4';
inline constexpr char kTypeDirectory = '5';
inline constexpr char kTypeFifo = '6';
inline constexpr char kTypeContiguousFile = '7';
inline constexpr char kTypePax = 'x';
inline constexpr char kTypePaxSolaris = 'X';
inline constexpr char kTypePaxGlobal = 'g';
inline constexpr char kTypeGnuLongName = 'L';
inline constexpr char kTypeGnuLongLink = 'K';
inline constexpr char kTypeGnuSparse = 'S';

// Headers that say something about a member that follows.
bool is_extension(char type);

// A NUL-terminated or full-width text field.
std::string_view text_field(const char* field, size_t width);

// Octal, or base-256 where the first bit is set. Nothing for characters that are neither.
std::optional<int64_t> number_field(const char* field, size_t width);

// True where the stored checksum is the sum of the bytes, unsigned as POSIX says or signed as some
// historic writers did.
bool checksum_matches(const Header& header);
uint32_t checksum_of(const Header& header);

bool all_zero(std::string_view bytes);

}  // namespace millrace::tar
