// Fetcher: brings stretches of shards into chunks: by pread from files, by ranged requests from stores.
//
// Requests are taken in the order they were made, a few at a time. A stretch that cannot be had from one
// place is asked for at the shard's other places. Compressed shards have no stretches: each run of one is a
// Stream, whose chunks are filled in order. stop() fails what waits. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/mutex.h"
#include "loader/cache.h"
#include "loader/catalogue.h"
#include "loader/chunk.h"
#include "loader/hints.h"
#include "loader/meters.h"

namespace millrace::loader {

struct Stretch {
  uint32_t shard = 0;
  uint64_t offset = 0;  // in the tar
  uint64_t size = 0;
};

// A compressed shard that is read once, forwards.
class Stream;

class Fetcher {
 public:
  // The catalogue, cache (may be null) and meters outlive the fetcher. It has connections of its own, so that
  // stopping ends them too.
  Fetcher(const Catalogue& catalogue, unsigned threads, BlockCache* cache, Meters& meters);
  ~Fetcher();

  void fetch(const Stretch& stretch, std::shared_ptr<Chunk> into);
  // The next stretch of a stream; stretches of one stream must not go backwards.
  std::shared_ptr<Stream> open_stream(uint32_t shard);
  void fetch(const std::shared_ptr<Stream>& stream, const Stretch& stretch, std::shared_ptr<Chunk> into);
  void stop();
  transfer::Stores& stores() { return stores_; }
  // The shard will be read soon.
  void hint(uint32_t shard) { hints_.soon(shard); }
  // A store answered with these headers for an object of this name.
  void heard(const std::string& name, const std::vector<net::HeaderField>& headers);

 private:
  void submit(std::function<void()> job, std::shared_ptr<Chunk> chunk);
  void run();
  Status fill(const Stretch& stretch, Chunk& chunk);
  Status fill_from(const Source& source, const Stretch& stretch, std::span<std::byte> into);
  Status fill_from_file(const Source& source, const Stretch& stretch, std::span<std::byte> into);
  Result<std::shared_ptr<File>> open_file(const std::string& path);

  struct Job {
    std::function<void()> work;
    std::shared_ptr<Chunk> chunk;
  };
  const Catalogue& catalogue_;
  const std::shared_ptr<net::Lifeline> lifeline_;
  transfer::Stores stores_;
  Hints hints_;
  BlockCache* const cache_;
  Meters& meters_;
  Mutex mutex_;
  ConditionVariable filled_;
  std::deque<Job> jobs_ MR_GUARDED_BY(mutex_);
  std::deque<std::pair<std::string, std::shared_ptr<File>>> open_files_
      MR_GUARDED_BY(mutex_);  // latest first
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace millrace::loader
