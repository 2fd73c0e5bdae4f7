// Implements BlockCache: each block is a file, and each byte of one lock file stands for a block.
#include "loader/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/hash.h"
#include "loader/meters.h"

namespace millrace::loader {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLockPlaces = uint64_t{1} << 40;
constexpr uint64_t kEvictionPlace = kLockPlaces;
constexpr std::string_view kBlockSuffix = ".block";

// Longer than a fetch that is tried again several times; then a process that stands still is passed over.
constexpr int64_t kMostWaitMs = 60'000;
constexpr int64_t kLongestPauseMs = 50;

// Holds one byte of the lock file; the kernel lets go when the process dies.
class PlaceLock {
 public:
  // Waits for whoever holds it; an error when the lifeline is cut meanwhile.
  static Result<PlaceLock> take(const std::string& directory, uint64_t place, net::Lifeline& lifeline) {
    PlaceLock lock;
    lock.file_ = File(::open((directory + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), "lock");
    int64_t pause = 1;
    for (int64_t waited = 0; waited < kMostWaitMs;
         waited += pause, pause = std::min(2 * pause, kLongestPauseMs)) {
      const auto taken = try_lock_byte(lock.file_, place);
      lock.is_held_ = taken && *taken;
      // Where locks do not work at all, the block may be fetched twice.
      if (!taken || *taken) break;
      MR_TRY(lifeline.pause(pause));
    }
    return lock;
  }
  bool is_held() const { return is_held_; }

 private:
  File file_;
  bool is_held_ = false;
};

uint64_t hash_of(std::span<const std::byte> bytes) {
  return hash64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool read_block(const std::string& path, std::span<std::byte> into) {
  auto file = File::open_read(path);
  if (!file) return false;
  const auto block = file->read_at(0, into);
  uint64_t hash = 0;
  const auto tail = file->read_at(into.size(), std::as_writable_bytes(std::span(&hash, 1)));
  return block && *block == into.size() && tail && *tail == sizeof hash && hash == hash_of(into);
}

struct Kept {
  fs::file_time_type used;
  uint64_t bytes;
  fs::path path;
};

// What a killed process was writing; whoever still writes has touched his file a moment ago.
bool is_abandoned(const fs::directory_entry& entry) {
  std::error_code problem;
  const auto used = entry.last_write_time(problem);
  return entry.path().extension() == ".tmp" && !problem &&
         fs::file_time_type::clock::now() - used > std::chrono::hours(1);
}

std::vector<Kept> list_blocks(const std::string& directory) {
  std::vector<Kept> found;
  std::error_code problem;
  for (fs::recursive_directory_iterator entry(directory, problem), end; entry != end;
       entry.increment(problem)) {
    if (problem) break;
    if (is_abandoned(*entry)) {
      std::error_code ignored;
      fs::remove(entry->path(), ignored);
    }
    if (entry->path().extension() != kBlockSuffix) continue;
    const auto used = entry->last_write_time(problem);
    const auto bytes = entry->file_size(problem);
    if (!problem) found.push_back({used, bytes, entry->path()});
  }
  return found;
}

}  // namespace

Result<std::unique_ptr<BlockCache>> BlockCache::open(const std::string& directory, uint64_t most_bytes,
                                                     Meters& meters) {
  std::error_code problem;
  fs::create_directories(directory, problem);
  if (problem) return make_system_error(problem.value(), "making the cache directory " + directory);
  std::unique_ptr<BlockCache> cache(new BlockCache(directory, most_bytes, meters));
  for (const Kept& block : list_blocks(directory)) cache->bytes_ += block.bytes;
  return cache;
}

Status BlockCache::get(const BlockKey& key, std::span<std::byte> into, const Origin& origin) {
  const uint64_t high = hash64(key.version, key.offset);
  const uint64_t low = hash64(key.version, ~key.size);
  const std::string name = fmt::format("{:016x}{:016x}", high, low);
  const std::string path = fmt::format("{}/{}/{}{}", directory_, name.substr(0, 2), name, kBlockSuffix);
  if (read_block(path, into)) {
    ++meters_.cache_hits;
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    return {};
  }
  const PlaceLock lock = MR_TRY(PlaceLock::take(directory_, high % kLockPlaces, origin.lifeline));
  if (read_block(path, into)) {  // someone else was first
    ++meters_.cache_hits;
    return {};
  }
  ++meters_.cache_misses;
  MR_TRY(origin.fetch(into));
  if (lock.is_held()) keep(path, into, origin.lifeline);
  return {};
}

void BlockCache::keep(const std::string& path, std::span<const std::byte> bytes, net::Lifeline& lifeline) {
  if (bytes.size() > most_bytes_) return;
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::gettid());
  const uint64_t hash = hash_of(bytes);
  {
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0) return;
    File file(descriptor, temporary);
    // Not flushed: the hash at the end tells a torn block, and a cache may forget.
    const auto written = file.write_all({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                        {reinterpret_cast<const char*>(&hash), sizeof hash});
    if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
      ::unlink(temporary.c_str());
      return;
    }
  }
  bytes_ += bytes.size() + sizeof hash;
  if (bytes_ > most_bytes_) evict(lifeline);
}

void BlockCache::evict(net::Lifeline& lifeline) {
  const auto lock = PlaceLock::take(directory_, kEvictionPlace, lifeline);
  if (!lock || !lock->is_held()) return;
  std::vector<Kept> blocks = list_blocks(directory_);
  uint64_t total = 0;
  for (const Kept& block : blocks) total += block.bytes;
  std::sort(blocks.begin(), blocks.end(), [](const Kept& a, const Kept& b) { return a.used < b.used; });
  // A tenth more than needed, so that the next blocks do not scan again.
  for (const Kept& block : blocks) {
    if (total <= most_bytes_ - most_bytes_ / 10) break;
    std::error_code ignored;
    fs::remove(block.path, ignored);
    total -= block.bytes;
  }
  bytes_ = total;
}

}  // namespace millrace::loader
