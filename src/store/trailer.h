// Trailer: what an object's file says about itself, behind its data. docs/formats/drive.md has the bytes.
//
// data, zeros up to a multiple of 4096, body, footer. The body holds the checksum of every block of the data,
// the record with bucket and key (and the upload, for a part), and the shard index. The footer is at the very
// end and has the checksum of the body, so a file that was cut or changed is found out. Pure, but for
// read_trailer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "store/record.h"

namespace millrace::store {

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kMaxTrailerBytes = 128 << 20;
inline constexpr uint64_t kMaxShardIndexBytes = 64 << 20;

inline uint64_t padded_to_page(uint64_t size) {
  return (size + kPageBytes - 1) / kPageBytes * kPageBytes;
}

enum class FileKind : uint8_t {
  kObject = 1,  // one PUT: data and record
  kPart = 2,    // one part of an upload: data, and the part's own record
  kHead = 3,    // no data: the record of a multipart object, or a newer record of a single one
};

struct Trailer {
  FileKind kind = FileKind::kObject;
  uint64_t file = 0;       // its own name
  uint64_t data_size = 0;  // bytes of data in this file
  std::string bucket;
  std::string key;
  std::string upload;                     // parts
  uint32_t part_number = 0;               // parts
  int64_t initiated_ms = 0;               // parts: when the upload began
  std::vector<NameValue> upload_headers;  // parts: as given when the upload began
  std::vector<NameValue> upload_tags;
  Record record;
  std::vector<uint32_t> block_crcs;  // of the data, kBlockBytes each
  std::string shard_index;           // heads and objects; may be empty
};

// The bytes behind the padded data. Sets record.shard_index_offset and _size where there is an index.
std::string encode_trailer(Trailer& trailer);

// How much of the body is wanted: an index may be large.
enum class TrailerParts { kAll, kWithoutIndex };
// Checks the footer and the checksum of the body (the index's own only where it is read).
Result<Trailer> read_trailer(const File& file, TrailerParts parts);

}  // namespace millrace::store
