// IndexBuilder and IndexFeed: making the index of a shard.
//
// IndexBuilder takes samples one by one from whoever writes a shard. IndexFeed takes a shard's bytes as they
// pass (a file being read, an upload) and finds the samples itself. Both give the same bytes for the same
// shard. Memory: 56 bytes per sample with one field, 24 more for each further field. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "tar/feed.h"
#include "tar/group.h"
#include "tar/index.h"
#include "tar/sample.h"

namespace millrace::tar {

class IndexBuilder {
 public:
  struct Field {
    std::string_view field;
    uint64_t data_offset = 0;
    uint64_t size = 0;
    uint32_t crc = 0;  // CRC32C of the data
  };

  // After end_sample, more fields may follow: they belong to the same sample, which then ends again.
  void begin_sample(uint64_t offset, uint64_t key_hash);
  void add_field(const Field& field);
  void end_sample(uint64_t end_offset);

  struct Totals {
    ShardIdentity shard;
    uint64_t tar_bytes = 0;
    Compression compression = Compression::kNone;
    KeyRule key_rule = KeyRule::kFirstDot;
  };
  // The index file's bytes, or an error where the shard is beyond the format. The builder is used up.
  Result<std::string> finish(const Totals& totals) &&;

  uint64_t samples() const { return samples_.size(); }
  uint64_t memory() const {
    constexpr uint64_t kNameOverhead = 160;  // a name is kept twice, in nodes of their own
    return samples_.capacity() * sizeof(SampleRow) + fields_.capacity() * sizeof(FieldRow) + 2 * name_bytes_ +
           field_names_.size() * kNameOverhead;
  }

 private:
  struct SampleRow {
    uint64_t offset;
    uint64_t size;
    uint64_t key_hash;
    uint32_t first_field;
  };
  struct FieldRow {
    uint64_t place;
    uint64_t size;
    uint32_t crc;
  };
  uint64_t field_id(std::string_view field);

  std::vector<SampleRow> samples_;
  std::vector<FieldRow> fields_;
  std::vector<std::string> field_names_;
  std::unordered_map<std::string, uint64_t> field_ids_;
  uint64_t name_bytes_ = 0;  // of field_names_
  bool beyond_format_ = false;
};

class IndexFeed {
 public:
  IndexFeed(const std::string& shard_name, const ReadOptions& options)
      : name_(shard_name),
        options_(options.group),
        reader_(shard_name, options.archives),
        grouper_(shard_name, options.group) {}

  void add_stored(std::string_view bytes);  // as the shard is stored
  Status add_tar(std::string_view bytes);   // the tar itself: the same bytes where it is not compressed
  Result<std::string> finish(Compression compression);

  uint64_t samples() const { return grouper_.samples(); }
  // What it holds by now; finish() holds the index beside it for a moment.
  uint64_t memory() const {
    return reader_.memory() + grouper_.memory() + builder_.memory() + crcs_.capacity() * sizeof(uint32_t);
  }

 private:
  Status drain();
  void take(const Group& group);

  const std::string name_;
  const GroupOptions options_;
  FeedReader reader_;
  Grouper grouper_;
  IndexBuilder builder_;
  std::vector<uint32_t> crcs_;  // of the fields of the sample under way
  bool in_field_ = false;       // what comes is data of the last of them, not of a loose member
  Hasher content_;
  uint64_t stored_bytes_ = 0;
  uint64_t tar_bytes_ = 0;
};

}  // namespace millrace::tar
