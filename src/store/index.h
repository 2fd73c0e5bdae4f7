// DriveIndex: the ordered key space of one drive, in RocksDB.
//
// Families: objects (RocksDB's default one: bucket NUL key -> record), small (the same key -> checksum and
// bytes of an inline object), files (file -> its owner), uploads (uploads and parts), buckets, meta (clock,
// clean mark, tombstones). docs/formats/drive.md has the keys. Writes are atomic batches. Safe from many
// threads.
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/record.h"

namespace millrace::store {

enum class Family : uint8_t { kObjects, kSmall, kFiles, kUploads, kBuckets, kMeta };
inline constexpr size_t kFamilies = 6;

enum class Sync : uint8_t { kYes, kNo };

inline constexpr std::string_view kMetaClock = "clock";
inline constexpr std::string_view kMetaClean = "clean";
inline constexpr std::string_view kMetaLost = "lost";
inline constexpr std::string_view kMetaScrub = "scrub";  // when the last cycle ended, and how far this one is
inline constexpr std::string_view kMetaTombstone = "tombstone ";  // and the object key behind it

inline constexpr std::string_view kMetaPending = "pending ";  // and the key of a shard to be indexed

rocksdb::Slice slice(std::string_view bytes);
std::string_view view(const rocksdb::Slice& slice);

std::string object_key(std::string_view bucket, std::string_view key);
// Both halves of an object_key; empty where there is no NUL.
std::pair<std::string_view, std::string_view> split_object_key(std::string_view encoded);
std::string file_key(uint64_t file);  // big-endian, so that files come in order
std::optional<uint64_t> parse_file_key(std::string_view encoded);
std::string upload_key(std::string_view bucket, std::string_view key, std::string_view upload);
std::string part_prefix(std::string_view bucket, std::string_view key, std::string_view upload);
std::string part_key(std::string_view bucket, std::string_view key, std::string_view upload, unsigned number);

class DriveIndex {
 public:
  // Blocks while the log of the last run is replayed. `cache` is shared by all drives.
  static Result<std::unique_ptr<DriveIndex>> open(const std::string& path,
                                                  const std::shared_ptr<rocksdb::Cache>& cache);
  static Status repair(const std::string& path);
  ~DriveIndex();

  Result<std::optional<std::string>> find(Family family, std::string_view key) const;
  Status write(rocksdb::WriteBatch& batch, Sync sync);
  void put(rocksdb::WriteBatch& batch, Family family, std::string_view key, std::string_view value) const;
  void remove(rocksdb::WriteBatch& batch, Family family, std::string_view key) const;
  // Reads ahead and fills no cache for scans over everything.
  enum class Scan : uint8_t { kSome, kAll };
  std::unique_ptr<rocksdb::Iterator> iterate(Family family, Scan scan) const;

  // What opening had to leave out of the log of the last run because it does not match its checksums; empty:
  // nothing. After a power loss that may be a commit that was under way; otherwise it is damage, and commits
  // are gone.
  // Remembered until fsck has looked at the files.
  const std::string& lost_log() const { return lost_log_; }
  Status forget_loss();

  uint64_t estimate_objects() const;
  // After an error the index takes no writes until this succeeds.
  Status resume();
  // Brings everything into tables, so that the next open has no log to replay.
  Status flush();

 private:
  DriveIndex() = default;
  Status remember_loss(const std::string& lost);

  std::string path_;
  std::string lost_log_;
  std::unique_ptr<rocksdb::DB> database_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> families_{};
};

// What RocksDB says, as our error: a full drive is kNoSpace, damage kCorrupt, all else kIo.
Error make_index_error(const rocksdb::Status& status, const std::string& path);

// A small object in the family `small`.
std::string encode_small(std::string_view bytes);
Result<std::string> decode_small(std::string_view encoded);

// Which object or upload a file belongs to, in the family `files`.
struct FileOwner {
  std::string bucket;
  std::string key;
  std::string upload;  // empty: an object's
  uint32_t part = 0;
};
std::string encode_owner(const FileOwner& owner);
Result<FileOwner> decode_owner(std::string_view encoded);

}  // namespace millrace::store
