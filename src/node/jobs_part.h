// JobsPart: the jobs of a node and of its cluster: where they are kept, how workers reach the store, what
// administration is told and asked.
//
// A node alone keeps its jobs in a registry of its own, below its directory. Workers are clients of this
// node; where keys are in force they sign with one that only the cluster's nodes and their workers have.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cluster/registry.h"
#include "gateway/access.h"
#include "gateway/meters.h"
#include "jobs/runner.h"
#include "node/config.h"
#include "transfer/stores.h"

namespace millrace::node {

class ClusterPart;

// The keys of the node and, where there are any, that of its jobs. Thread-safe.
class JobKeys final : public gateway::KeySource {
 public:
  JobKeys(gateway::KeySource& keys, gateway::Key own) : keys_(keys), own_(std::move(own)) {}
  std::shared_ptr<const gateway::KeyRing> current() override;
  const gateway::Key& own() const { return own_; }

 private:
  gateway::KeySource& keys_;
  const gateway::Key own_;
  Mutex mutex_;
  std::shared_ptr<const gateway::KeyRing> from_ MR_GUARDED_BY(mutex_);
  std::shared_ptr<const gateway::KeyRing> with_ MR_GUARDED_BY(mutex_);
};

// The key of jobs: the same on all nodes of a cluster, drawn anew by a node alone.
gateway::Key make_job_key(const ClusterPart* cluster);

class JobsPart {
 public:
  struct Parts {
    const Config& config;
    ClusterPart* cluster = nullptr;  // none: the node is alone
    std::string url;                 // of this node
    std::string ca_file;             // by which to know it; empty: the system's
    const gateway::Key& key;
    const gateway::Meters& meters;
  };
  static Result<std::unique_ptr<JobsPart>> start(const Parts& parts, Log& log);
  ~JobsPart();
  // Before the server ends: workers are its clients.
  void stop();

  // Blocks. GET /-/jobs, GET /-/jobs/ID
  Result<nlohmann::ordered_json> list();
  Result<nlohmann::ordered_json> show(const std::string& id);
  // POST /-/jobs: {"action": "start", "job": {…}}, {"action": "stop", "retry" or "remove", "id": …}
  Result<nlohmann::ordered_json> change(const nlohmann::ordered_json& request);
  jobs::RunnerReading read() const { return runner_->read(); }

 private:
  class NodeSurroundings;
  JobsPart() = default;

  std::unique_ptr<cluster::Registry> own_registry_;  // of a node alone
  std::unique_ptr<NodeSurroundings> surroundings_;
  std::unique_ptr<transfer::Stores> stores_;
  std::unique_ptr<jobs::JobRunner> runner_;
};

}  // namespace millrace::node
