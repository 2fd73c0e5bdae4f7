// ClusterWriter: the bytes of one PUT on their way to the drives of many nodes.
//
// Bytes fill cells. When a stripe of k cells is full its parity is computed, and every holder is sent its
// cell while the next stripe fills: at most two stripes are in memory. Small objects are not cut: their bytes
// go to the holders with the prepare. The object becomes visible by the commit, after all slices are durable.
#pragma once

#include <memory>

#include "cluster/cluster.h"
#include "store/objects.h"

namespace millrace::cluster {

// Objects up to this are kept as copies in buckets of any redundancy.
inline constexpr uint64_t kCopiedBytes = 128 << 10;

class ClusterWriter final : public store::Writer {
 public:
  ClusterWriter(Cluster& cluster, store::PutOptions options);
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
