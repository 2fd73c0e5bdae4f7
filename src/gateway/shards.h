// Shards from the inside: index, members, samples and batches of them, by way of the shard index.
//
// Where a shard is not compressed the bytes go from the page cache to the socket; a compressed one is
// unpacked chunk by chunk on a worker.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "gateway/call.h"
#include "gateway/unpack.h"
#include "store/objects.h"
#include "tar/index.h"

namespace millrace::gateway {

std::string_view shard_state_name(store::ShardState state);

// Parsed indexes of the shards in use. Thread-safe.
class ShardIndexes {
 public:
  ShardIndexes(store::Objects& objects, store::RequestMemory& memory) : objects_(objects), memory_(memory) {}
  // Blocks. kNoSuchIndex where the object is no shard.
  Result<std::shared_ptr<const tar::Index>> get(const store::ObjectPointer& object);
  store::Objects& objects() { return objects_; }
  store::RequestMemory& memory() { return memory_; }

 private:
  static constexpr size_t kKept = 256;
  static constexpr uint64_t kKeptBytes = 64 << 20;
  struct Kept {
    std::string name;
    store::Version version;
    uint64_t bytes = 0;
    std::shared_ptr<const tar::Index> index;
  };
  store::Objects& objects_;
  store::RequestMemory& memory_;
  Mutex mutex_;
  std::list<Kept> kept_ MR_GUARDED_BY(mutex_);  // newest first
  uint64_t kept_bytes_ MR_GUARDED_BY(mutex_) = 0;
};

// All block. A member is looked for with `unpacker`, which whoever asks for the next one gives again.
Result<TarRange> find_samples(ShardIndexes& indexes, store::ObjectPointer object, uint64_t first,
                              uint64_t last);
Result<TarRange> find_member(Unpacker& unpacker, ShardIndexes& indexes, store::ObjectPointer object,
                             const std::string& path);

// "17" or "0-99".
Result<std::pair<uint64_t, uint64_t>> parse_sample_range(std::string_view text);
// Where there is no index to say it: all of the tar. Its end is that of the stored bytes.
Result<TarRange> whole_tar(store::Objects& objects, store::ObjectPointer object);
// The sample to whose key a member of this name belongs.
Result<uint64_t> find_sample_of(ShardIndexes& indexes, const store::ObjectPointer& object,
                                const std::string& path);

// Sends it as (part of) a body whose head is out: from the page cache, or unpacked chunk by chunk.
net::Task<Status> send_tar_range(Call& call, TarRange range, Unpacker& unpacker);

net::Task<Status> get_index(Call& call);    // GET ?index
net::Task<Status> get_member(Call& call);   // GET ?member=path
net::Task<Status> get_samples(Call& call);  // GET ?sample=N, ?samples=A-B
net::Task<Status> get_batch(Call& call);    // POST bucket?batch

}  // namespace millrace::gateway
