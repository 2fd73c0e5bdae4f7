// AuditWatch: tells the audit what changed without a request to this node: access keys, which whoever may
// write the key file or the registry can change, and the cluster's nodes and drives.
//
// It looks once a second, so a line says that something is so now, not who did it: commands that change keys
// do not ask a node. A change that was undone within a second is not seen. Who asked a node to drain or
// remove something is in the line of that request.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/background.h"
#include "cluster/map.h"
#include "gateway/access.h"
#include "gateway/audit.h"

namespace millrace::node {

// What is in one and not in the other, without secrets.
std::vector<nlohmann::ordered_json> describe_changed_keys(const gateway::KeyRing& before,
                                                          const gateway::KeyRing& now);
std::vector<nlohmann::ordered_json> describe_changed_map(const cluster::Map& before, const cluster::Map& now);

class AuditWatch {
 public:
  struct Watched {
    gateway::KeySource& keys;
    std::function<std::shared_ptr<const cluster::Map>()> map;  // empty: the node is alone
  };
  // All of it outlives stop(). What is there now is where the changes begin.
  AuditWatch(gateway::Audit& audit, Watched watched);
  ~AuditWatch() { stop(); }
  // Looks once more.
  void stop();

 private:
  void look();

  gateway::Audit& audit_;
  const Watched watched_;
  std::shared_ptr<const gateway::KeyRing> keys_;
  std::shared_ptr<const cluster::Map> map_;
  bool stopped_ = false;
  Background looks_;
};

}  // namespace millrace::node
