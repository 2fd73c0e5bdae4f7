// Index: what is where in a shard, without reading the shard. Kept beside it as shard.tar.mri.
//
// It knows every sample's bytes, the hash of its key and the place, size and checksum of each field; and
// which shard it belongs to, by length and content hash, so a stale index is never believed. The format is in
// docs/formats/shard-index.md. Immutable once loaded; safe from many threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tar/compress.h"
#include "tar/key.h"

namespace millrace::tar {

inline constexpr std::string_view kIndexSuffix = ".mri";

// What ties an index to its shard.
struct ShardIdentity {
  uint64_t stored_bytes = 0;  // length of the shard as it is stored
  uint64_t content_hash = 0;  // XXH3-64 of those bytes
  bool operator==(const ShardIdentity&) const = default;
};

class Index {
 public:
  struct Field {
    std::string_view field;
    uint64_t offset = 0;  // of the data, in the tar
    uint64_t size = 0;
    uint32_t crc = 0;  // CRC32C of the data
  };
  struct Range {
    uint64_t offset = 0;  // of the first header block, in the tar
    uint64_t size = 0;    // up to and with the last padding
  };

  // Moves only: the field names are views into the bytes.
  Index(Index&&) = default;
  Index& operator=(Index&&) = default;

  // Checks everything: afterwards every accessor is safe for sample < samples().
  static Result<Index> parse(std::string bytes);

  const ShardIdentity& shard() const { return shard_; }
  uint64_t tar_bytes() const { return tar_bytes_; }  // length of the tar, uncompressed
  Compression compression() const { return compression_; }
  KeyRule key_rule() const { return key_rule_; }

  uint64_t samples() const { return sample_count_; }
  Range range(uint64_t sample) const;
  uint64_t key_hash(uint64_t sample) const;
  std::vector<Field> fields(uint64_t sample) const;
  std::optional<Field> find_field(uint64_t sample, std::string_view field) const;
  // Samples whose key has this key's hash: nearly always none or one. The shard's own header decides.
  std::vector<uint64_t> find(std::string_view key) const;
  const std::vector<std::string_view>& field_names() const { return field_names_; }

  const std::string& bytes() const { return bytes_; }

 private:
  Index() = default;
  Status check_samples() const;
  uint64_t first_field(uint64_t sample) const;
  uint64_t end_field(uint64_t sample) const;
  Field field_at(uint64_t row, uint64_t start) const;

  std::string bytes_;
  ShardIdentity shard_;
  uint64_t tar_bytes_ = 0;
  uint64_t sample_count_ = 0;
  uint64_t field_count_ = 0;
  Compression compression_ = Compression::kNone;
  KeyRule key_rule_ = KeyRule::kFirstDot;
  size_t samples_at_ = 0;
  size_t fields_at_ = 0;
  size_t by_hash_at_ = 0;
  std::vector<std::string_view> field_names_;
};

}  // namespace millrace::tar
