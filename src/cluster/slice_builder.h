// ClusterSliceBuilder: makes lost slices from others, or copies them, cell by cell; encodes objects anew.
//
// A slice is copied from its holder of before where that can be read; otherwise k others give it. Every block
// that is read is compared with its checksum by the node that reads it. Threads of its own wait for nodes.
#pragma once

#include <atomic>

#include "base/workers.h"
#include "cluster/mender.h"

namespace millrace::cluster {

class Cluster;

class ClusterSliceBuilder final : public SliceBuilder {
 public:
  static constexpr unsigned kThreads = 4;

  explicit ClusterSliceBuilder(Cluster& cluster) : cluster_(cluster), workers_(kThreads) {}

  void build(Order order, Done<uint64_t> done) override;
  void recode(const ObjectName& name, const store::Record& record, Done<uint64_t> done) override;
  // Those under way and all later ones are answered with an error soon.
  void give_up() { stopping_ = true; }
  // Waits for those under way.
  void stop();

 private:
  Result<uint64_t> build_now(const Order& order);
  Result<uint64_t> recode_now(const ObjectName& name, const store::Record& record);
  // On a thread of its own; the answer on the strand.
  void run(std::function<Result<uint64_t>()> work, Done<uint64_t> done);

  Cluster& cluster_;
  std::atomic<bool> stopping_ = false;
  Workers workers_;
};

}  // namespace millrace::cluster
