// Record: everything the store knows about one object besides its bytes.
//
// Kept in the index of the drive that holds the bytes, and at the end of the object's own file, so that a
// lost index can be rebuilt. Encoded with a format number and a checksum; decoding trusts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "store/version.h"

namespace millrace::store {

inline constexpr uint64_t kBlockBytes = 1 << 20;    // one CRC32C each
inline constexpr uint64_t kInlineBytes = 16 << 10;  // objects up to this live in the index
inline constexpr uint64_t kMaxObjectBytes = uint64_t{5} << 40;
inline constexpr size_t kMaxKeyBytes = 1024;
inline constexpr size_t kMaxParts = 10'000;

using NameValue = std::pair<std::string, std::string>;

// One file under data/ and how many of the object's bytes it holds. A single PUT has one piece, a multipart
// object one per part.
struct Piece {
  uint64_t file = 0;
  uint64_t size = 0;
  bool operator==(const Piece&) const = default;
};

// Among a record's headers: why a shard has no index. Given back with the object, like the others.
inline constexpr std::string_view kIndexProblem = "x-millrace-index-problem";

// Among the headers of an object that came from an upstream: which version of it that is.
inline constexpr std::string_view kUpstreamVersion = "x-millrace-upstream-version";

enum class ShardState : uint8_t {
  kNone,     // the name does not promise a tar
  kPending,  // to be indexed: the bytes did not come in one plain stream
  kReady,    // the index is there
  kInvalid,  // there can be none, kIndexProblem says why; the object is as good as any other
};

// How an object's slices lie: any k of k+m give the object. 1+0 is one copy on one drive.
struct Spread {
  uint8_t k = 1;
  uint8_t m = 0;
  uint8_t slot = 0;               // which slice the record's bytes are
  uint32_t cell = 0;              // bytes of the object that lie together in one slice; 0 where k is 1
  std::string write_id;           // random, the same for all slices of one write: slices of two never mix
  std::vector<uint64_t> holders;  // hashes of the drives' ids, by slot
  bool operator==(const Spread&) const = default;
};
inline constexpr size_t kMaxSlices = 64;
inline constexpr size_t kWriteIdBytes = 16;
inline constexpr size_t kMaxUploadIdBytes = 64;

struct Record {
  Version version;  // decides which of two records is newer
  uint64_t size = 0;
  int64_t modified_ms = 0;         // wall time, to be shown only
  std::string etag;                // without quotes
  uint32_t crc32c = 0;             // of the whole content
  std::vector<NameValue> headers;  // lower-case names; given back as they came: content-type, x-amz-meta-…,
                                   // x-amz-checksum-…
  std::vector<NameValue> tags;
  std::vector<Piece> pieces;  // empty: the bytes are in the index (at most kInlineBytes)
  uint64_t head = 0;          // file whose end holds this record and the shard index; 0 if inline
  ShardState shard = ShardState::kNone;
  uint64_t shard_samples = 0;
  uint64_t shard_index_offset = 0;  // in the head file
  uint64_t shard_index_size = 0;
  Spread spread;
  std::string
      upload;  // of an object that many nodes hold in parts: whose parts; each piece names one of them
  bool deleted = false;  // a tombstone: the object is gone, and no drive that returns may bring it back
  bool operator==(const Record&) const = default;
};

std::string encode_record(const Record& record);
Result<Record> decode_record(std::string_view bytes);

// What a listing shows, read without decoding the rest: a view into the encoded record.
struct RecordSummary {
  Version version;
  uint64_t head = 0;
  uint64_t size = 0;
  int64_t modified_ms = 0;
  bool deleted = false;
  std::string_view etag;
};
Result<RecordSummary> summarize_record(std::string_view bytes);
// Where its slices are, without the rest.
Result<Spread> decode_spread_of(std::string_view record);

// Whether an encoded record is of a format that is only read.
bool is_old_record(std::string_view bytes);

// Of two records of one key the newer is the truth. The same version twice on drives of one machine: a move
// or a new shard index was cut short, and the later head is as good.
template <typename Known>
bool is_newer(const Known& a, const Known& b) {
  return a.version != b.version ? a.version > b.version : a.head > b.head;
}

// The files of an object: its pieces, and its head where that is a file of its own.
std::vector<uint64_t> files_of(const Record& record);

}  // namespace millrace::store
