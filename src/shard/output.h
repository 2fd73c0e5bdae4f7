// ShardFile: one shard being written, with its index, visible only when it is whole.
//
// The tar goes to a nameless file; finish() flushes it, renames it into place and puts the index beside it.
// A ShardFile that is dropped before that leaves nothing. An address is written to as an upload in parts,
// which the store makes visible at the end; the store makes the index itself. Standard output ("-") gets the
// bytes as they come, and no index. Not movable; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/result.h"
#include "tar/compress.h"
#include "tar/index_build.h"
#include "tar/sample.h"
#include "tar/writer.h"
#include "transfer/stores.h"
#include "transfer/stream_upload.h"

namespace millrace::shard {

enum class IndexPolicy { kBeside, kNone };

struct OutputOptions {
  std::optional<tar::Compression> compression;  // none given: by the name
  IndexPolicy index = IndexPolicy::kBeside;
  tar::KeyRule key_rule = tar::KeyRule::kFirstDot;
  std::vector<FileIdentity> inputs;      // what is being read: never replaced
  std::vector<std::string> input_names;  // the same for addresses
  transfer::Stores* stores = nullptr;    // for addresses
  transfer::PutOptions put;              // of addresses
  bool dry_run = false;                  // everything is made, and nothing is kept
};

struct ShardSummary {
  std::string path;
  uint64_t samples = 0;
  uint64_t tar_bytes = 0;
  uint64_t stored_bytes = 0;
  uint64_t repeated_keys = 0;  // samples whose key came before: a reader will refuse or join them
};

struct NewField {
  std::string_view field;
  std::string_view bytes;
};

class ShardFile {
 public:
  static Result<std::unique_ptr<ShardFile>> create(const std::string& path, const OutputOptions& options);

  // The sample as it lies in its archive, where it can be copied; with new headers otherwise.
  Status add(const tar::Sample& sample);
  // A new sample under fixed owner, mode and time. Key and field must be what a reader makes of their name;
  // a key that came before, or a sample without fields, is refused.
  Status add(std::string_view key, std::span<const NewField> fields);
  // Blocks that belong to no sample.
  Status add_loose(std::string_view blocks);

  // A new sample whose fields are written piece by piece.
  void begin_sample(std::string_view key);
  Status begin_field(std::string_view field, uint64_t size);
  Status field_data(std::string_view bytes);
  Status end_field();
  void end_sample() { index_.end_sample(writer_->offset()); }

  uint64_t samples() const { return samples_; }
  uint64_t tar_bytes() const { return writer_->offset(); }

  Result<ShardSummary> finish();

 private:
  // The stored bytes on their way to the file: gathered, hashed, counted.
  class Sink final : public tar::ByteSink {
   public:
    explicit Sink(ShardFile& shard);
    Status write(std::string_view bytes) override { return write(bytes, {}); }
    Status write(std::string_view first, std::string_view second) override;
    Status finish() override;

    uint64_t bytes() const { return bytes_; }
    uint64_t content_hash() const { return hasher_.value(); }

   private:
    Status gather(std::string_view bytes);
    Status flush_with(std::string_view more);

    ShardFile& shard_;
    std::string gathered_;
    Hasher hasher_;
    uint64_t bytes_ = 0;
    uint64_t written_ = 0;
    uint64_t started_writeback_ = 0;
  };

  ShardFile() = default;
  Status open();
  Status write_stored(std::string_view first, std::string_view second);
  // A sample begins, unless it has the key of the last one: a reader will take them for one, and so does the
  // index.
  void open_sample(std::string_view key, uint64_t key_hash);
  void start_sample(std::string_view key, uint64_t key_hash);
  Status open_field(const std::string& name, std::string_view field, uint64_t size);
  Status check_new(std::string_view key, std::span<const NewField> fields) const;
  Status check_name(std::string_view name, std::string_view key, std::string_view field) const;
  File& file() { return atomic_ ? atomic_->file() : stream_; }

  std::string path_;
  OutputOptions options_;
  tar::Compression compression_ = tar::Compression::kNone;
  std::optional<AtomicFile> atomic_;
  File stream_;  // standard output
  std::unique_ptr<transfer::StreamUpload> upload_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<tar::ByteSink> compressor_;
  std::optional<tar::Writer> writer_;
  tar::IndexBuilder index_;
  tar::IndexBuilder::Field field_;  // under way; its name is field_name_
  std::string field_name_;
  std::string sample_key_;
  tar::SeenKeys seen_keys_;
  uint64_t repeated_keys_ = 0;
  uint64_t samples_ = 0;
};

}  // namespace millrace::shard
