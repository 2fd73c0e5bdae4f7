// ObjectCache: the objects that are in memory, records and small bytes and open files, least recently used
// first out.
//
// Never older than the index: a commit takes the key out before it writes and puts the new object in after,
// and an object that was read from the index before a commit and offered after it is turned away (by the
// shard's epoch). Sharded, one short lock per call; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "store/local_object.h"

namespace millrace::store {

class ObjectCache {
 public:
  explicit ObjectCache(uint64_t most_bytes) : most_bytes_(most_bytes / kShards) {}

  static uint64_t hash(std::string_view bucket, std::string_view key);

  std::shared_ptr<const LocalObject> find(uint64_t hash, std::string_view bucket, std::string_view key);

  // Take the epoch, read the index, offer what was read. False: a commit came in between; read again.
  uint64_t epoch(uint64_t hash) const { return shard(hash).epoch.load(std::memory_order_acquire); }
  bool offer(uint64_t hash, uint64_t epoch, std::shared_ptr<const LocalObject> object);

  // Around the commit of one key; with nothing where it is gone or unknown afterwards.
  void begin_change(uint64_t hash);
  void end_change(uint64_t hash, std::shared_ptr<const LocalObject> object);

  // The next who asks reads the index again.
  void forget(uint64_t hash);
  // Lets go of objects that hold files, oldest first, about so many.
  void forget_files(size_t count);
  void clear();

 private:
  static constexpr size_t kShards = 64;
  struct Entry {
    uint64_t hash = 0;
    uint64_t bytes = 0;
    std::shared_ptr<const LocalObject> object;
  };
  struct alignas(64) Shard {
    Mutex mutex;
    std::atomic<uint64_t> epoch = 0;
    std::list<Entry> entries MR_GUARDED_BY(mutex);  // oldest last
    std::unordered_map<uint64_t, std::list<Entry>::iterator> by_hash MR_GUARDED_BY(mutex);
    std::vector<uint64_t> changing MR_GUARDED_BY(mutex);
    uint64_t bytes MR_GUARDED_BY(mutex) = 0;
  };
  // What was let go; destroyed after the lock is released, for the last holder of an object may remove files.
  using Released = std::vector<std::shared_ptr<const LocalObject>>;

  const Shard& shard(uint64_t hash) const { return shards_[hash >> 58]; }
  Shard& shard(uint64_t hash) { return shards_[hash >> 58]; }
  static void erase(Shard& shard, uint64_t hash, Released& released) MR_REQUIRES(shard.mutex);
  void insert(Shard& shard, uint64_t hash, std::shared_ptr<const LocalObject> object, Released& released)
      MR_REQUIRES(shard.mutex);

  const uint64_t most_bytes_;  // per shard
  Shard shards_[kShards];
};

}  // namespace millrace::store
