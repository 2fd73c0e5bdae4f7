// Core: what the parts of the store share: options, clock, drives, buckets, uploads, cache.
//
// The drives are an immutable snapshot (DriveMap), swapped whole under the exclusive `topology` lock; every
// commit holds it shared, so that no commit sees half a change and all writers of one key meet in one
// committer. Made and stopped by the store; any thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/rendezvous.h"
#include "base/result.h"
#include "base/snapshot.h"
#include "base/workers.h"
#include "store/buckets.h"
#include "store/buffers.h"
#include "store/cache.h"
#include "store/drive.h"
#include "store/drives.h"
#include "store/known_drives.h"
#include "store/objects.h"
#include "store/options.h"
#include "store/request_memory.h"
#include "store/uploads.h"
#include "store/version.h"

namespace millrace::store {

class Committer;
struct Change;

struct MissingDrive {
  KnownDrive known;
  std::string reason;
};

struct DriveMap {
  std::vector<std::shared_ptr<Drive>> drives;
  std::vector<Target> targets;                         // at the same positions
  std::vector<std::shared_ptr<Committer>> committers;  // at the same positions
  std::vector<MissingDrive> missing;
  uint64_t since = 0;  // the clock when it became the map: earlier versions may lie on drives that left

  std::shared_ptr<Drive> find(const std::string& path) const;
  // kUnavailable while a known drive is missing: it may hold what was not found. `what` is what is not known
  // then: "bucket b cannot be listed".
  Status check_all_there(const std::string& what) const;
};

// One record of a key, and where it was found.
struct Found {
  std::shared_ptr<Drive> drive;
  Record record;
};
// All records of one key, newest first, tombstones too; and what could not be read.
struct Lookup {
  std::vector<Found> found;
  std::optional<Error> error;
  std::vector<std::shared_ptr<Drive>> unread;  // drives that did not say what they hold

  // The object's record, unless there is none or it was deleted.
  const Found* current() const {
    return found.empty() || found.front().record.deleted ? nullptr : &found.front();
  }
};

// Damage that was found, the newest kMaxDamages of it. Any thread.
class DamageList {
 public:
  // False where it is known already.
  bool add(Damage damage);
  std::vector<Damage> found() const;
  // The object was made again: damage of it that is found later is new.
  void forget(std::string_view bucket, std::string_view key);
  uint64_t count() const { return count_; }

 private:
  mutable Mutex mutex_;
  std::deque<Damage> found_ MR_GUARDED_BY(mutex_);
  std::atomic<uint64_t> count_ = 0;
};

class Core {
 public:
  static constexpr unsigned kUnpackers = 2;

  Core(StoreOptions store_options, Log& store_log)
      : options(std::move(store_options)),
        log(store_log),
        buffers(kBlockBytes, options.write_buffers),
        memory(options.request_bytes),
        cache(options.cache_bytes),
        index_cache(rocksdb::NewLRUCache(kIndexCacheBytes)) {}

  const StoreOptions options;
  Log& log;
  std::string node_id;
  KnownDrives known;
  VersionClock clock;
  BufferPool buffers;
  RequestMemory memory;
  ObjectCache cache;
  BucketTable buckets;
  UploadTable uploads;
  DamageList damages;
  std::shared_ptr<rocksdb::Cache> index_cache;
  Mutex admin;  // buckets and drives are changed one at a time; taken before `topology`
  SharedMutex topology;
  // Counts before old records go from drives that objects were moved off.
  std::atomic<uint64_t> moves = 0;
  Workers unpackers{kUnpackers};  // of compressed shards on their way in

  Version next_version() { return {0, clock.next(), 0}; }

  std::shared_ptr<const DriveMap> map() const { return map_.load(); }
  // With `topology` held exclusively: hands queued changes to the committers of the new map.
  void set_map(std::shared_ptr<DriveMap> map) MR_REQUIRES(topology);

  // kUnavailable where a record that is newer than all that were found, or the only one, may lie on a drive
  // that is missing or cannot be read.
  static Status check_newest(const DriveMap& drives, const Lookup& lookup, const std::string& bucket,
                             const std::string& key);
  // Notes durably that the drive misses a commit, before that commit is acknowledged.
  Status mark_behind(Drive& drive);
  Lookup look_up(const DriveMap& drives, const std::string& bucket, const std::string& key) const;
  Result<std::shared_ptr<const LocalObject>> get_object(const std::string& bucket, const std::string& key);
  // The same for those who go over everything: it stays out of the cache.
  Result<std::shared_ptr<const LocalObject>> load_object(const std::string& bucket, const std::string& key);
  // The first drive in the object's order that serves and has room; a slow one only where no other has.
  Result<std::shared_ptr<Drive>> choose_drive(std::string_view bucket, std::string_view key,
                                              uint64_t size) const;
  // Queues it for the committer of its key; `done` is called in any case.
  void submit(Change change);
  // The same, and waits for it.
  Result<std::shared_ptr<const LocalObject>> commit(Change change);
  void report(Damage damage);
  // With `admin` held: gives every drive this record. An error where no drive took it.
  Status save_bucket(const BucketRecord& record);
  // With `admin` held: gives the drive every bucket's record.
  Status save_buckets(Drive& drive) const;
  // A drive that left the map: closed once nobody reads from it any more, never on one of its own threads.
  void retire(std::shared_ptr<Drive> drive);
  void close_retired();

  // Called from a committer when a shard without index was committed; set before the first drive is attached.
  std::function<void()> on_pending_shard;

 private:
  enum class Keep : uint8_t { kYes, kNo };
  Result<std::shared_ptr<const LocalObject>> load(const std::string& bucket, const std::string& key,
                                                  Keep keep);

  static constexpr size_t kIndexCacheBytes = 256 << 20;
  Mutex retired_mutex_;
  std::vector<std::shared_ptr<Drive>> retired_ MR_GUARDED_BY(retired_mutex_);
  Snapshot<DriveMap> map_{std::make_shared<const DriveMap>()};
};

}  // namespace millrace::store
