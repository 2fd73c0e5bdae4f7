// ClusterPart: what makes a node one of a cluster, started and stopped in the right order.
//
// It joins by the registry that the settings name, keeps the lease, and serves the objects of all nodes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/background.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/workers.h"
#include "cluster/cluster.h"
#include "cluster/cluster_buckets.h"
#include "cluster/cluster_objects.h"
#include "cluster/hidden_sweep.h"
#include "cluster/http_peers.h"
#include "cluster/loop_strand.h"
#include "cluster/member.h"
#include "cluster/peer_service.h"
#include "cluster/registry.h"
#include "cluster/slice_shelf.h"
#include "node/administration.h"
#include "node/cluster_keys.h"
#include "node/config.h"
#include "store/local_store.h"

namespace millrace::node {

// kInvalid where the directory belongs to a cluster: alone, the node would show none of its objects.
Status check_alone(const Config& config);
// Whether a drive of another node may be this one's (StoreOptions::may_adopt): the cluster knows it, and no
// node that lives serves it.
std::function<bool(const std::string& drive)> adoption_by(const Config& config);

class ClusterPart {
 public:
  // The keys of the node's own file, and what must hold of those that count.
  struct Keys {
    std::shared_ptr<const gateway::KeyRing> own;
    std::function<Status(const gateway::KeyRing&)> check;
  };
  // Joins; waits until the node has a place in the map, its lease, keys and buckets. The store outlives it.
  static Result<std::unique_ptr<ClusterPart>> start(const Config& config, store::LocalStore& store, Log& log,
                                                    const Keys& keys);
  ~ClusterPart();
  // Lets the other nodes take over: they do at once. This one answers their messages as before, and does not
  // act for any key any more. After the last request of a client.
  void hand_over();
  // After everyone who uses objects(), peers() and joined().
  void stop();
  // Nodes that take requests, with this one.
  size_t count_serving() const;

  store::Objects& objects() { return *objects_; }
  gateway::KeySource& keys() { return *keys_; }
  cluster::PeerService& peers() { return *service_; }
  // Has this called whenever the node reads buckets and keys again, also when another node asks for it.
  void also_refresh(std::function<Status()> more);
  // Has all nodes read again what is in the registry. Blocks.
  void tell_everyone() { static_cast<void>(objects_->refresh_everywhere()); }
  JoinedCluster joined() { return {*registry_, *member_, *peers_, *cluster_, *keys_}; }
  const cluster::Member& member() const { return *member_; }

 private:
  // What the protocol knows of the cluster: the member's map and lease, and the buckets.
  class NodeMembership;

  ClusterPart(const Config& config, store::LocalStore& store, Log& log);
  void leave();
  Status bring_keys(const Keys& keys);
  Status join();
  Status wait_for_place();
  Status wire();
  // Buckets and keys, from the registry.
  Status refresh();
  void wait_for_epoch(uint32_t epoch);
  std::vector<cluster::MapDrive> own_drives() const;
  // Missing drives that the map says another node has.
  void forget_given_away();

  const Config& config_;
  store::LocalStore& store_;
  Log& log_;
  Workers workers_;  // wait for drives
  Workers callers_;  // wait for nodes
  std::unique_ptr<cluster::Registry> registry_;
  std::unique_ptr<ClusterKeys> keys_;
  std::unique_ptr<cluster::Member> member_;
  cluster::MemberThreads threads_;
  std::unique_ptr<cluster::ClusterBuckets> buckets_;
  std::unique_ptr<NodeMembership> membership_;
  std::unique_ptr<cluster::LoopStrand> strand_;
  std::unique_ptr<cluster::SliceShelf> shelf_;
  std::unique_ptr<cluster::HttpPeers> peers_;
  std::unique_ptr<cluster::Cluster> cluster_;
  std::unique_ptr<cluster::HiddenSweep> sweep_;
  std::unique_ptr<cluster::ClusterObjects> objects_;
  std::unique_ptr<cluster::PeerService> service_;
  std::unique_ptr<cluster::Watch> bucket_watch_;
  std::unique_ptr<cluster::Watch> key_watch_;
  Background drive_watch_;
  Background reader_;  // of buckets and keys
  Mutex more_mutex_;
  std::function<Status()> more_ MR_GUARDED_BY(more_mutex_);
  bool handed_over_ = false;
  bool stopped_ = false;
};

}  // namespace millrace::node
