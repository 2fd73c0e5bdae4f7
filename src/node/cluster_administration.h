// What administration tells and changes of the cluster that a node belongs to: the map, where an object lies,
// nodes that are drained or removed, join tokens.
//
// Called on workers, any number at a time: looking waits for holders of an object, changing for the registry.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "cluster/cluster.h"
#include "cluster/http_peers.h"
#include "cluster/member.h"
#include "cluster/registry.h"
#include "node/cluster_keys.h"

namespace millrace::node {

// All of it outlives whoever uses it.
struct JoinedCluster {
  cluster::Registry& registry;
  cluster::Member& member;
  cluster::HttpPeers& links;
  cluster::Cluster& cluster;
  const ClusterKeys& keys;
};

// The cluster as this node knows it, and what the walks of all nodes found. Waits a second for a node that
// does not answer.
nlohmann::ordered_json cluster_json(const JoinedCluster& joined);
// Whether the cluster does its work: it is led, and every bucket has as many drives as its floor asks for.
// kUnavailable with what is wrong.
Result<nlohmann::ordered_json> ready_json(const JoinedCluster& joined, const store::Objects& objects);
// What speaks against taking this node away now; nothing where all objects stay at their floor without it.
Status check_maintenance(const JoinedCluster& joined);
// The slices of this node that were made again because they were damaged, the newest last.
nlohmann::ordered_json repairs_json(const JoinedCluster& joined);
// A drive and its node as a person knows them; empty where no map has the drive any more.
nlohmann::ordered_json drive_json(const cluster::Map& map, cluster::DriveId drive);
// Which drives of which nodes hold the slices of an object.
Result<nlohmann::ordered_json> where_json(const JoinedCluster& joined, const cluster::ObjectName& name);
// {"action": "drain" or "remove", "node": number or id}: the cluster then.
// {"action": "token", "valid_seconds": 3600}: the token.
Result<nlohmann::ordered_json> change_cluster(const JoinedCluster& joined,
                                              const nlohmann::ordered_json& request);

}  // namespace millrace::node
