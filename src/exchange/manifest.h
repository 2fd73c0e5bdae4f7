// Manifest: which samples a rank holds and where in its segments they lie. The truth about a sample store.
//
// A store is a directory: segments (tar shards with their indexes), manifests, and CURRENT, a small file that
// names the manifest that counts. What no counting manifest names is not there, whatever the directory says.
// The format is in docs/formats/sample-store.md. Plain values; parsing believes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "exchange/plan.h"

namespace millrace::exchange {

struct Record {
  uint64_t id = 0;      // of the sample, in the whole data set
  uint64_t offset = 0;  // of its tar blocks in the segment
  uint64_t bytes = 0;
  uint32_t label = kNoLabel;
  uint32_t since = 0;  // the first epoch in which it was at this rank
  uint32_t crc = 0;    // CRC32C of the blocks
  uint32_t segment = 0;
  uint32_t ordinal = 0;  // place in the segment's index
  uint32_t home = 0;     // the rank that took it in
  bool operator==(const Record&) const = default;

  Resident resident() const { return {id, label, since}; }
};

struct Segment {
  uint32_t number = 0;
  uint32_t samples = 0;
  uint64_t bytes = 0;  // of the file
  bool operator==(const Segment&) const = default;
};

struct Manifest {
  uint32_t rank = 0;
  uint32_t world = 1;
  uint64_t epoch = 0;             // exchanges and redeals that were committed
  uint32_t redeals = 0;           // of these
  uint32_t generation = 0;        // counts rewrites within an epoch
  uint64_t samples = 0;           // of the whole data set
  uint32_t classes = 0;           // labels are below; 0: none
  std::string class_names;        // one a line, by number; may be empty
  std::vector<Segment> segments;  // rising
  std::vector<Record> records;    // by slot
  bool operator==(const Manifest&) const = default;

  // The epochs of whoever trains: a redeal between two of them is none.
  uint64_t exchanges() const { return epoch - redeals; }
  const Segment* find_segment(uint32_t number) const;
  uint64_t live_bytes() const;
  std::vector<Resident> residents() const;
};

std::string encode_manifest(const Manifest& manifest);
// Every record lies inside a segment that is there; labels, ids and ordinals are in range.
Result<Manifest> parse_manifest(std::string_view bytes);

inline constexpr std::string_view kCurrentName = "CURRENT";
inline constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 30;
std::string manifest_name(uint64_t epoch, uint32_t generation);
std::string segment_name(uint32_t number);

// The set of samples that are there, as one number: equal before and after whatever only moves them.
uint64_t content_share(const std::vector<Record>& records);

}  // namespace millrace::exchange
