// DriveIndex: the ordered key space of one drive, in RocksDB.
//
// Families: objects (RocksDB's default one: bucket NUL key -> record), small (the same key -> checksum and
// bytes of an inline object), files (file -> its owner), uploads (uploads and parts), buckets, meta (clock,
// clean mark, tombstones), ledgers (what a drive of a cluster knows of a key). docs/formats/drive.md has the
// keys. Writes are atomic batches. Safe from many threads. While it is opened anew after an error, callers
// wait; where that failed, they get the reason.
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "store/record.h"

namespace millrace::store {

enum class Family : uint8_t { kObjects, kSmall, kFiles, kUploads, kBuckets, kMeta, kLedgers };
inline constexpr size_t kFamilies = 7;

enum class Sync : uint8_t { kYes, kNo };

inline constexpr std::string_view kMetaClock = "clock";
inline constexpr std::string_view kMetaClean = "clean";
inline constexpr std::string_view kMetaLost = "lost";
inline constexpr std::string_view kMetaScrub = "scrub";  // when the last cycle ended, and how far this one is
// And the object key behind it: a newer record of it was, or was about to be, written to another drive.
inline constexpr std::string_view kMetaSuperseded = "superseded ";
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

// RocksDB and its families, closed with the last user.
struct OpenIndex {
  std::unique_ptr<rocksdb::DB> database;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> families{};
  std::string lost_log;  // what opening had to leave out

  ~OpenIndex();
};

// Rows in the order of their keys. They keep the index from being opened anew: not for long.
using Rows = std::unique_ptr<rocksdb::Iterator, std::function<void(rocksdb::Iterator*)>>;

class DriveIndex {
 public:
  // How large the log may grow; opening after a crash needs as much room, to bring it into tables.
  static constexpr uint64_t kMostLogBytes = 192 << 20;
  static constexpr uint64_t kLeastLogBytes = 4 << 20;
  // Blocks while the log of the last run is replayed. `cache` is shared by all drives.
  static Result<std::unique_ptr<DriveIndex>> open(const std::string& path,
                                                  const std::shared_ptr<rocksdb::Cache>& cache,
                                                  uint64_t log_bytes = kMostLogBytes);
  static Status repair(const std::string& path);

  Result<std::optional<std::string>> find(Family family, std::string_view key) const;
  Status write(rocksdb::WriteBatch& batch, Sync sync);
  void put(rocksdb::WriteBatch& batch, Family family, std::string_view key, std::string_view value) const;
  void remove(rocksdb::WriteBatch& batch, Family family, std::string_view key) const;
  // Reads ahead and fills no cache for scans over everything.
  enum class Scan : uint8_t { kSome, kAll };
  Rows iterate(Family family, Scan scan) const;

  // What opening had to leave out of the log of the last run because it does not match its checksums; empty:
  // nothing. After a power loss that may be a commit that was under way; otherwise it is damage, and commits
  // are gone.
  // Remembered until fsck has looked at the files.
  std::string lost_log() const;
  Status forget_loss();

  uint64_t estimate_objects() const;
  // After an error the index takes no writes until this succeeds. Where RocksDB cannot go on it is closed and
  // opened again: what was refused may then be there, what was acknowledged is.
  enum class Recovery : uint8_t { kNone, kResumed, kReopened };
  Result<Recovery> recover();
  // Closes it and opens what is at its place now. Blocks; whoever reads meanwhile waits.
  Status reopen();
  // Brings everything into tables, so that the next open has no log to replay.
  Status flush();

 private:
  // A family as batches know it: by its number alone, which stays the same however often the index is opened.
  class FamilyName final : public rocksdb::ColumnFamilyHandle {
   public:
    void set_number(uint32_t number) { number_ = number; }
    const std::string& GetName() const override { return name_; }
    uint32_t GetID() const override { return number_; }
    rocksdb::Status GetDescriptor(rocksdb::ColumnFamilyDescriptor*) override;
    const rocksdb::Comparator* GetComparator() const override;

   private:
    uint32_t number_ = 0;
    std::string name_;
  };

  DriveIndex(std::string path, std::shared_ptr<rocksdb::Cache> cache, uint64_t log_bytes)
      : path_(std::move(path)), cache_(std::move(cache)), log_bytes_(log_bytes) {}
  Result<std::shared_ptr<OpenIndex>> open_anew() const;
  // Waits while it is being opened; error where it is closed.
  Result<std::shared_ptr<OpenIndex>> use() const;
  Status remember_loss(const std::string& lost);
  std::string last_clock() const;

  const std::string path_;
  const std::shared_ptr<rocksdb::Cache> cache_;
  const uint64_t log_bytes_;
  mutable std::array<FamilyName, kFamilies> names_;  // set once, by open; RocksDB takes them as not const
  std::atomic<bool> refused_ = false;                // a write, since it was opened or resumed
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  std::shared_ptr<OpenIndex> open_ MR_GUARDED_BY(mutex_);  // none while it is opened anew, or closed
  bool opening_ MR_GUARDED_BY(mutex_) = false;
  std::string closed_ MR_GUARDED_BY(mutex_);  // why
  std::string lost_log_ MR_GUARDED_BY(mutex_);
  std::string clock_ MR_GUARDED_BY(mutex_);  // of the last acknowledged commit before it was closed
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
