// The node's counters as Prometheus reads them: operations, drives, the scrubber, the server, the cluster.
#pragma once

#include <string>

#include "gateway/meters.h"
#include "net/server.h"
#include "node/audit_log.h"
#include "node/cluster_administration.h"
#include "node/jobs_part.h"
#include "node/node_transforms.h"
#include "store/drives.h"
#include "store/quotas.h"
#include "upstream/upstream_objects.h"

namespace millrace::node {

// Blocks: drives are asked.
struct Counted {
  const gateway::Meters& meters;
  const net::Server& server;
  store::Drives& drives;
  const store::Quotas& quotas;
  const AuditLog* audit = nullptr;  // null: there is none
  const upstream::UpstreamObjects* upstream = nullptr;
  const JoinedCluster* joined = nullptr;  // null: the node belongs to no cluster
  const NodeTransforms* transforms = nullptr;
  const JobsPart* jobs = nullptr;  // null: they have not begun
};
std::string prometheus_text(const Counted& counted);

}  // namespace millrace::node
