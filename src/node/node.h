// Node: a store, its gateway and the server in front, started and stopped in the right order.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "base/workers.h"
#include "gateway/gateway.h"
#include "gateway/shards.h"
#include "net/server.h"
#include "net/tls.h"
#include "node/administration.h"
#include "node/audit_log.h"
#include "node/audit_watch.h"
#include "node/cluster_part.h"
#include "node/config.h"
#include "node/jobs_part.h"
#include "node/keys.h"
#include "node/node_transforms.h"
#include "store/local_store.h"
#include "store/quota_objects.h"
#include "upstream/upstream_objects.h"

namespace millrace::node {

class Node {
 public:
  static Result<std::unique_ptr<Node>> start(const Config& config, Log& log);
  ~Node();

  std::string url() const;  // http://127.0.0.1:9400
  store::LocalStore& store() { return *store_; }
  // Null where the node is alone.
  const ClusterPart* cluster() const { return cluster_.get(); }
  bool is_open() const { return open_; }
  // The certificate that clients must be told to trust; empty: none, or one that they know.
  const std::string& self_signed() const { return self_signed_; }

  // Lets requests of clients that are under way finish within the limit. A node of a cluster then leaves it,
  // and answers others until they get along without it. How many requests did not finish.
  struct Left {
    unsigned of_clients = 0;
    unsigned of_nodes = 0;
  };
  Left drain(uint64_t limit_ms);
  // The audit's file was renamed: a new one is begun.
  void reopen_audit();

 private:
  Node() = default;
  Status open_transforms(const Config& config, Log& log);
  // The gateway, and the server that asks it.
  Status serve(const Config& config, store::Objects& objects, gateway::KeySource& keys, Log& log);
  void begin_jobs(const Config& config, Log& log);
  Status begin_audit(const Config& config, gateway::KeySource& keys, Log& log);

  // In the order of building; taken down in reverse. But the store may answer until its end, and what answers
  // go through outlives it.
  std::unique_ptr<store::QuotaObjects> quotas_;
  std::unique_ptr<AuditLog> audit_;  // none: nothing is kept
  std::unique_ptr<KeyFile> keys_;
  std::unique_ptr<JobKeys> job_keys_;
  std::unique_ptr<store::LocalStore> store_;
  std::unique_ptr<ClusterPart> cluster_;  // none: the node is alone
  std::unique_ptr<upstream::UpstreamObjects> upstream_;
  std::unique_ptr<NodeTransforms> transforms_;
  std::unique_ptr<AuditWatch> audit_watch_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Workers> movers_;
  std::unique_ptr<gateway::ShardIndexes> indexes_;
  std::unique_ptr<NodeAdministration> administration_;
  std::unique_ptr<gateway::Gateway> gateway_;
  std::unique_ptr<net::CertificateFiles> certificates_;
  std::unique_ptr<net::Server> server_;
  std::unique_ptr<JobsPart> jobs_;
  net::ListenAddress listen_;
  bool open_ = false;
  std::string self_signed_;
};

}  // namespace millrace::node
