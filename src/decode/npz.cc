// Reads zip files as numpy writes them: the directory is found from the end, 64-bit sizes are in extra
// fields, members are stored or deflated, nothing is encrypted. Local headers serve only to find where the
// bytes begin.
#include "decode/npz.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "decode/inflate.h"
#include "decode/npy.h"

namespace millrace::decode {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kLocal = "PK\x03\x04";
constexpr std::string_view kCentral = "PK\x01\x02";
constexpr std::string_view kEnd = "PK\x05\x06";
constexpr std::string_view kWideLocator = "PK\x06\x07";
constexpr std::string_view kWideEnd = "PK\x06\x06";
constexpr size_t kLocalBytes = 30;
constexpr size_t kCentralBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kWideEndBytes = 56;
constexpr size_t kMaxComment = 65'535;
constexpr uint32_t kInExtra = 0xffffffff;

template <typename T>
T read(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// `count` bytes from `at`, where the archive has them.
std::optional<std::string_view> find_part(std::string_view bytes, uint64_t at, uint64_t count) {
  if (at > bytes.size() || count > bytes.size() - at) return std::nullopt;
  return bytes.substr(at, count);
}

struct Directory {
  uint64_t members = 0;
  uint64_t offset = 0;
};

struct Entry {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
};

Error cut(std::string_view what) {
  return make_error(Code::kTruncated, "npz is cut or damaged: {} lies beyond its end", what);
}

Result<Directory> find_directory(std::string_view bytes) {
  if (bytes.size() < kEndBytes)
    return make_error(Code::kTruncated, "npz of {} bytes is too short", bytes.size());
  const std::string_view tail = bytes.substr(bytes.size() - std::min(bytes.size(), kEndBytes + kMaxComment));
  const size_t found = tail.substr(0, tail.size() - (kEndBytes - kEnd.size())).rfind(kEnd);
  if (found == tail.npos) {
    return make_error(Code::kTruncated, "npz has no directory at its end: it is cut, or not a zip");
  }
  const size_t at = bytes.size() - tail.size() + found;
  Directory directory{read<uint16_t>(bytes, at + 10), read<uint32_t>(bytes, at + 16)};
  if (at < kLocatorBytes || bytes.substr(at - kLocatorBytes, 4) != kWideLocator) return directory;
  const auto wide = find_part(bytes, read<uint64_t>(bytes, at - kLocatorBytes + 8), kWideEndBytes);
  if (!wide || !wide->starts_with(kWideEnd)) return cut("its 64-bit directory");
  return Directory{read<uint64_t>(*wide, 32), read<uint64_t>(*wide, 48)};
}

// Numbers that do not fit 32 bits, in the order of the fields that say so.
Status read_wide(std::string_view extra, Entry& entry) {
  while (extra.size() >= 4) {
    const auto tag = read<uint16_t>(extra, 0);
    const auto length = read<uint16_t>(extra, 2);
    const auto part = find_part(extra, 4, length);
    if (!part) break;
    extra.remove_prefix(4 + size_t{length});
    if (tag != 1) continue;
    size_t at = 0;
    for (uint64_t* number : {&entry.size, &entry.packed, &entry.offset}) {
      if (*number != kInExtra) continue;
      if (part->size() < at + 8) return cut("a 64-bit size");
      *number = read<uint64_t>(*part, at);
      at += 8;
    }
  }
  return {};
}

Result<Entry> read_entry(std::string_view bytes, uint64_t& at) {
  const auto fixed = find_part(bytes, at, kCentralBytes);
  if (!fixed) return cut("an entry of the directory");
  if (!fixed->starts_with(kCentral))
    return make_error(Code::kCorrupt, "npz: no directory entry at byte {}", at);
  Entry entry;
  entry.flags = read<uint16_t>(*fixed, 8);
  entry.method = read<uint16_t>(*fixed, 10);
  entry.crc = read<uint32_t>(*fixed, 16);
  entry.packed = read<uint32_t>(*fixed, 20);
  entry.size = read<uint32_t>(*fixed, 24);
  entry.offset = read<uint32_t>(*fixed, 42);
  const uint64_t name_bytes = read<uint16_t>(*fixed, 28);
  const uint64_t extra_bytes = read<uint16_t>(*fixed, 30);
  const uint64_t comment_bytes = read<uint16_t>(*fixed, 32);
  const auto name = find_part(bytes, at + kCentralBytes, name_bytes);
  const auto extra = find_part(bytes, at + kCentralBytes + name_bytes, extra_bytes);
  if (!name || !extra) return cut("an entry of the directory");
  entry.name = *name;
  MR_TRY(read_wide(*extra, entry));
  at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  return entry;
}

Result<std::string_view> find_packed(std::string_view bytes, const Entry& entry) {
  const auto local = find_part(bytes, entry.offset, kLocalBytes);
  if (!local) return cut("its header");
  if (!local->starts_with(kLocal)) return make_error(Code::kCorrupt, "no member at byte {}", entry.offset);
  const uint64_t start =
      entry.offset + kLocalBytes + read<uint16_t>(*local, 26) + uint64_t{read<uint16_t>(*local, 28)};
  const auto packed = find_part(bytes, start, entry.packed);
  if (!packed) return cut("its data");
  return *packed;
}

// The member's bytes, in the archive or in `inflated`.
Result<std::string_view> unpack(std::string_view packed, const Entry& entry, NpzArrays& into) {
  std::string_view plain = packed;
  if ((entry.flags & 1) != 0) return make_error(Code::kUnsupported, "it is encrypted");
  if (entry.method == 8) {
    into.inflated.push_back(std::make_unique<std::string>(MR_TRY(inflate_raw(packed, entry.size))));
    plain = *into.inflated.back();
  } else if (entry.method != 0) {
    return make_error(Code::kUnsupported, "it is compressed by method {}; stored and deflated are read",
                      entry.method);
  } else if (entry.packed != entry.size) {
    return make_error(Code::kCorrupt, "it is stored, but in {} bytes instead of {}", entry.packed,
                      entry.size);
  }
  const auto* start = reinterpret_cast<const uint8_t*>(plain.data());
  if (crc32_gzip_refl(0, start, plain.size()) != entry.crc) {
    return make_error(Code::kCorrupt, "its bytes do not fit their checksum");
  }
  return plain;
}

Result<ArrayView> read_member(std::string_view bytes, const Entry& entry, uint64_t& budget, NpzArrays& into) {
  if (entry.size > budget) {
    return make_error(Code::kTooLarge, "{} bytes are more than the {} that are left of the limit", entry.size,
                      budget);
  }
  budget -= entry.size;
  const std::string_view packed = MR_TRY(find_packed(bytes, entry));
  const std::string_view plain = MR_TRY(unpack(packed, entry, into));
  return parse_npy(plain);
}

}  // namespace

Result<NpzArrays> parse_npz(std::string_view bytes, uint64_t most) {
  const Directory directory = MR_TRY(find_directory(bytes));
  if (directory.members > kMaxNpzMembers) {
    return make_error(Code::kTooLarge, "npz of {} members; at most {} are read", directory.members,
                      kMaxNpzMembers);
  }
  NpzArrays result;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.members; ++i) {
    Entry entry = MR_TRY(read_entry(bytes, at));
    auto array = read_member(bytes, entry, most, result);
    if (!array) return array.take_error().within("npz member " + printable(entry.name, 200));
    if (entry.name.ends_with(".npy")) entry.name.resize(entry.name.size() - 4);
    result.arrays.push_back({std::move(entry.name), array.take()});
  }
  return result;
}

}  // namespace millrace::decode
