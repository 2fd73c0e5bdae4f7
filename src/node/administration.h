// NodeAdministration: everything under /-/: health, metrics, status, drives, buckets, the scrubber, the
// cluster, and the messages of other nodes.
//
// Answers are JSON. Health is for everyone; the rest needs open mode or a key with the right `admin` (metrics
// and status: any key, or a client on this machine). Messages of other nodes need no key: their seal is the
// right to send them.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "cluster/peer_service.h"
#include "gateway/gateway.h"
#include "net/server.h"
#include "node/audit_log.h"
#include "node/cluster_administration.h"
#include "node/jobs_part.h"
#include "node/node_transforms.h"
#include "store/local_store.h"
#include "store/quotas.h"
#include "upstream/upstream_objects.h"

namespace millrace::node {

// What it looks at and changes; all of it outlives it.
struct Administered {
  store::LocalStore& store;
  store::Objects& objects;  // those that clients see
  const store::Quotas& quotas;
  const AuditLog* audit = nullptr;  // none: nothing is kept
  // None where the node belongs to no cluster.
  cluster::PeerService* peers = nullptr;
  std::optional<JoinedCluster> cluster = {};
  const upstream::UpstreamObjects* upstream = nullptr;
  NodeTransforms* transforms = nullptr;
};

class NodeAdministration final : public gateway::Administration {
 public:
  explicit NodeAdministration(Administered parts);
  // What it reports on; both come after it, and before the first call.
  void attach(const net::Server& server, const gateway::Meters& meters);

  // The node's part in jobs, which begins when the server runs; until then there are none.
  void attach_jobs(JobsPart& jobs) { jobs_ = &jobs; }

  net::Task<Status> serve(gateway::Call& call) override;

 private:
  net::Task<Status> look(gateway::Call& call, std::string_view what);
  net::Task<Status> tell_metrics(gateway::Call& call);
  net::Task<Status> tell_cluster(gateway::Call& call, std::string_view what);
  net::Task<Status> change(gateway::Call& call, std::string_view what);
  std::function<Result<nlohmann::ordered_json>()> find_change(std::string_view what,
                                                              nlohmann::ordered_json json) const;
  net::Task<Status> answer_peer(gateway::Call& call);
  net::Task<Status> tell_jobs(gateway::Call& call, std::string_view what);

  const Administered parts_;
  const net::Server* server_ = nullptr;
  const gateway::Meters* meters_ = nullptr;
  std::atomic<JobsPart*> jobs_ = nullptr;
  const uint64_t started_us_;
};

}  // namespace millrace::node
