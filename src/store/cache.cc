// The cache of open objects, in shards with a lock each.
#include "store/cache.h"

#include <algorithm>

#include "base/mutex.h"
#include "base/rendezvous.h"

namespace millrace::store {

namespace {

uint64_t bytes_of(const LocalObject& object) {
  constexpr uint64_t kOverhead = 512;  // nodes, control block, open files
  uint64_t bytes = kOverhead + object.inline_bytes().size() + object.key().size() + object.bucket().size();
  for (const auto& [name, value] : object.record().headers) bytes += 64 + name.size() + value.size();
  for (const auto& [name, value] : object.record().tags) bytes += 64 + name.size() + value.size();
  return bytes + object.record().pieces.size() * 2 * sizeof(Piece);
}

}  // namespace

uint64_t ObjectCache::hash(std::string_view bucket, std::string_view key) {
  return name_hash(bucket, key);
}

std::shared_ptr<const LocalObject> ObjectCache::find(uint64_t hash, std::string_view bucket,
                                                     std::string_view key) {
  Shard& home = shard(hash);
  const MutexLock lock(home.mutex);
  const auto found = home.by_hash.find(hash);
  if (found == home.by_hash.end()) return nullptr;
  const Entry& entry = *found->second;
  // Two keys of one hash: only one of them is kept.
  if (entry.object->key() != key || entry.object->bucket() != bucket) return nullptr;
  home.entries.splice(home.entries.begin(), home.entries, found->second);
  return entry.object;
}

bool ObjectCache::offer(uint64_t hash, uint64_t epoch, std::shared_ptr<const LocalObject> object) {
  Released released;
  Shard& home = shard(hash);
  const MutexLock lock(home.mutex);
  if (home.epoch.load(std::memory_order_relaxed) != epoch) return false;
  if (std::ranges::find(home.changing, hash) == home.changing.end()) {
    insert(home, hash, std::move(object), released);
  }
  return true;
}

void ObjectCache::begin_change(uint64_t hash) {
  Released released;
  Shard& home = shard(hash);
  const MutexLock lock(home.mutex);
  home.changing.push_back(hash);
  erase(home, hash, released);
}

void ObjectCache::end_change(uint64_t hash, std::shared_ptr<const LocalObject> object) {
  Released released;
  Shard& home = shard(hash);
  const MutexLock lock(home.mutex);
  home.epoch.fetch_add(1, std::memory_order_release);
  const auto found = std::ranges::find(home.changing, hash);
  if (found != home.changing.end()) home.changing.erase(found);
  erase(home, hash, released);
  if (object != nullptr) insert(home, hash, std::move(object), released);
}

void ObjectCache::erase(Shard& shard, uint64_t hash, Released& released) {
  const auto found = shard.by_hash.find(hash);
  if (found == shard.by_hash.end()) return;
  shard.bytes -= found->second->bytes;
  released.push_back(std::move(found->second->object));
  shard.entries.erase(found->second);
  shard.by_hash.erase(found);
}

void ObjectCache::insert(Shard& shard, uint64_t hash, std::shared_ptr<const LocalObject> object,
                         Released& released) {
  erase(shard, hash, released);
  const uint64_t bytes = bytes_of(*object);
  shard.entries.push_front({hash, bytes, std::move(object)});
  shard.by_hash[hash] = shard.entries.begin();
  shard.bytes += bytes;
  while (shard.bytes > most_bytes_ && shard.entries.size() > 1) {
    erase(shard, shard.entries.back().hash, released);
  }
}

void ObjectCache::forget(uint64_t hash) {
  Released released;
  Shard& home = shard(hash);
  const MutexLock lock(home.mutex);
  erase(home, hash, released);
}

void ObjectCache::forget_files(size_t count) {
  for (size_t i = 0; i < kShards && count > 0; ++i) {
    Released released;
    Shard& home = shards_[i];
    const MutexLock lock(home.mutex);
    size_t here = std::max<size_t>(1, count / (kShards - i));
    for (auto entry = home.entries.end(); entry != home.entries.begin() && here > 0;) {
      --entry;
      if (entry->object->is_inline()) continue;
      const uint64_t hash = entry->hash;
      ++entry;
      erase(home, hash, released);
      --here;
      --count;
      if (count == 0) break;
    }
  }
}

void ObjectCache::clear() {
  for (Shard& home : shards_) {
    Released released;
    const MutexLock lock(home.mutex);
    home.epoch.fetch_add(1, std::memory_order_release);
    while (!home.entries.empty()) erase(home, home.entries.back().hash, released);
  }
}

}  // namespace millrace::store
