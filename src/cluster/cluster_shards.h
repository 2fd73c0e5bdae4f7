// ClusterShards: the indexes of a cluster's shards.
//
// The index of a shard is an object of the hidden bucket `BUCKET/indexes`, named by the shard's write id. The
// node that takes a plain tar makes its index as the bytes pass (ClusterWriter) and gives it to keep(). A
// shard that was compressed or came in parts is pending: the node that took it builds its index in the
// background, and whoever asks for it before has it built at once. An index that is missing is built again
// from the shard. Indexes of small shards are not kept, but built whenever they are asked for.
//
// get() blocks, on threads that may wait for nodes; the other calls never do. Any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/background.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/shared_work.h"
#include "base/workers.h"
#include "cluster/cluster.h"
#include "store/objects.h"
#include "store/request_memory.h"

namespace millrace::cluster {

class ClusterShards {
 public:
  using Index = std::shared_ptr<const std::string>;
  // Of an object that may be hidden.
  using Get = std::function<void(const ObjectName&, Done<store::ObjectPointer>)>;
  static constexpr size_t kMostPending =
      10'000;  // shards that wait for the thread; others for their first use

  // `objects` opens what `get` gave. `callers` wait for nodes.
  ClusterShards(Cluster& cluster, store::Objects& objects, Get get, Workers& callers,
                store::RequestMemory& memory)
      : cluster_(cluster), objects_(objects), get_(std::move(get)), callers_(callers), memory_(memory) {}

  void start();
  void stop() { thread_.stop(); }

  // A shard was written, and this is its index. Where that cannot be kept now, it is built when it is needed.
  void keep(store::ObjectPointer shard, Index index);
  // A pending shard was written.
  void build_later(store::ObjectPointer shard);
  // kNotFound: the name promises no tar; kInvalid: the bytes are none.
  Result<Index> get(const store::ObjectPointer& shard);
  Budget& feed_memory() { return memory_.indexes; }

 private:
  void build_pending();
  Result<Index> read_kept(const store::Object& shard);
  Result<Index> build(const store::ObjectPointer& shard);
  Status write(const store::Object& shard, const std::string& index);
  // Enters into the shard's record what came of indexing it.
  Status note(const store::Object& shard, const Result<std::string>& index, uint64_t samples);

  Cluster& cluster_;
  store::Objects& objects_;
  const Get get_;
  Workers& callers_;
  store::RequestMemory& memory_;
  SharedWork<std::string, Index> builds_;  // by write id
  Mutex mutex_;
  std::deque<store::ObjectPointer> pending_ MR_GUARDED_BY(mutex_);
  Background thread_;  // last: a round uses all of the above
};

}  // namespace millrace::cluster
