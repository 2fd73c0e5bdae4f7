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

// The cluster as this node knows it. Never waits.
nlohmann::ordered_json cluster_json(const JoinedCluster& joined);
// Which drives of which nodes hold the slices of an object.
Result<nlohmann::ordered_json> where_json(const JoinedCluster& joined, const cluster::ObjectName& name);
// {"action": "drain" or "remove", "node": number or id}: the cluster then.
// {"action": "token", "valid_seconds": 3600}: the token.
Result<nlohmann::ordered_json> change_cluster(const JoinedCluster& joined,
                                              const nlohmann::ordered_json& request);

}  // namespace millrace::node
