// ClusterWriter: the bytes of one PUT on their way to the drives of many nodes.
//
// Bytes fill cells. When a stripe of k cells is full its parity is computed, and every holder is sent its
// cell while the next stripe fills: at most two stripes are in memory. Small objects are not cut: their bytes
// go to the holders with the prepare. The object becomes visible by the commit, after all slices are durable.
// The index of a plain tar is made as its bytes pass.
#pragma once

#include <memory>

#include "cluster/cluster.h"
#include "store/objects.h"

namespace millrace::cluster {

class ClusterShards;

class ClusterWriter final : public store::Writer {
 public:
  // `shards` gets the indexes of shards; none: the object is no shard, whatever its name is.
  ClusterWriter(Cluster& cluster, store::PutOptions options, ClusterShards* shards = nullptr);
  // The same bytes once more, spread as the bucket wants it now: a move of the object of this record, which
  // keeps everything but its place. kCorrupt where the bytes are not the object's.
  ClusterWriter(Cluster& cluster, const ObjectName& name, store::Record moved);
  ~ClusterWriter() override;

  std::span<std::byte> space() override;
  Status advance(size_t bytes) override;
  void when_space(std::function<void()> ready) override;
  uint64_t bytes() const override;
  uint32_t crc32c() const override;
  void finish(store::Finish finish, Done<store::ObjectPointer> done) override;

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace millrace::cluster
