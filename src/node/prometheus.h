// The node's counters as Prometheus reads them: operations, drives, the scrubber, the server, the cluster.
#pragma once

#include <string>

#include "gateway/meters.h"
#include "net/server.h"
#include "node/cluster_administration.h"
#include "store/drives.h"
#include "upstream/upstream_objects.h"

namespace millrace::node {

struct Measured {
  const gateway::Meters& meters;
  store::Drives& drives;
  const net::Server& server;
  const upstream::UpstreamObjects* upstream = nullptr;
  const JoinedCluster* joined = nullptr;  // null where the node belongs to no cluster
};

// Blocks: drives are asked.
std::string prometheus_text(const Measured& measured);

}  // namespace millrace::node
