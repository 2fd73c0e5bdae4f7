// The node's counters as Prometheus reads them: operations, drives, the scrubber, the server, the cluster.
#pragma once

#include <string>

#include "gateway/meters.h"
#include "net/server.h"
#include "node/cluster_administration.h"
#include "store/drives.h"

namespace millrace::node {

// Blocks: drives are asked. `joined` is null where the node belongs to no cluster.
std::string prometheus_text(const gateway::Meters& meters, store::Drives& drives, const net::Server& server,
                            const JoinedCluster* joined);

}  // namespace millrace::node
