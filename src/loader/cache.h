// BlockCache: blocks of remote shards kept on a local drive, shared by all processes of the machine.
//
// A block's name is the hash of address, version, offset and size, so a shard that changes is never served
// from old bytes and shards of equal names never meet. A block appears under its name when it is whole and
// ends with a hash of its bytes: what a crash tore is fetched again. One process fetches a block while the
// others wait for it. The oldest blocks go when the cap is reached. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "net/lifeline.h"

namespace millrace::loader {

struct Meters;

struct BlockKey {
  std::string version;  // address and entity tag
  uint64_t offset = 0;
  uint64_t size = 0;
};

class BlockCache {
 public:
  static Result<std::unique_ptr<BlockCache>> open(const std::string& directory, uint64_t most_bytes,
                                                  Meters& meters);

  struct Origin {
    std::function<Status(std::span<std::byte> into)> fetch;
    net::Lifeline& lifeline;  // cut: waiting for others ends
  };
  // From the cache, or fetched and then kept. A cache that cannot be written to, or a block that another
  // process does not get done with, is passed over.
  Status get(const BlockKey& key, std::span<std::byte> into, const Origin& origin);

 private:
  BlockCache(std::string directory, uint64_t most_bytes, Meters& meters)
      : directory_(std::move(directory)), most_bytes_(most_bytes), meters_(meters) {}
  void keep(const std::string& path, std::span<const std::byte> bytes, net::Lifeline& lifeline);
  void evict(net::Lifeline& lifeline);

  const std::string directory_;
  const uint64_t most_bytes_;
  Meters& meters_;
  std::atomic<uint64_t> bytes_ = 0;  // as far as this process knows
};

}  // namespace millrace::loader
