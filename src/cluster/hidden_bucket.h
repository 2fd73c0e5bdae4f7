// Hidden buckets: what belongs to the objects of a bucket, kept as objects beside them.
//
// The name of a hidden bucket is that of its bucket, a slash and a word. No client can name it, because a
// bucket's name has no slash. It has the redundancy of its bucket and ends with it. docs/formats/drive.md
// says what is in each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/ledger.h"

namespace millrace::cluster {

// Uploads under way, by id.
std::string uploads_of(std::string_view bucket);
// Their parts, and those of the objects that were made of them.
std::string parts_of(std::string_view bucket);
// Indexes of shards, by the write id of the shard.
std::string indexes_of(std::string_view bucket);
std::string index_key(const store::Record& shard);
// Whether the index of this object is kept there. Small shards are indexed whenever somebody asks.
bool keeps_index(const store::Record& record);
// What comes after this bucket when a bucket and its hidden ones are gone over, the bucket itself first.
// Empty: it was the last.
std::string next_hidden(std::string_view name);
// The bucket itself, or the one that a hidden bucket belongs to.
std::string_view real_bucket(std::string_view name);

// Among the headers of uploads, parts and indexes: the key of the object that they belong to.
inline constexpr std::string_view kTargetHeader = "x-millrace-target";
// Nothing where it has none.
std::string target_of(const store::Record& record);

inline constexpr size_t kUploadIdBytes = 32;
std::string make_upload_id();
// Whether it can be one that make_upload_id() gave.
bool is_upload_id(std::string_view id);

// The number of a part's object: the part's own in the highest 16 bits, random bits below. So no two PUTs of
// one part overwrite each other, and whoever completes an upload chooses between them.
uint64_t make_part_file(unsigned number);
unsigned part_number_of(uint64_t file);
std::string part_key(std::string_view upload, uint64_t file);
struct PartName {
  std::string upload;
  uint64_t file = 0;
};
// Nothing: it is not the key of a part.
std::optional<PartName> parse_part_key(std::string_view key);

}  // namespace millrace::cluster
