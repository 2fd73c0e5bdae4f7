// KeyPlace: where access keys are kept: the key file of a node alone, or the registry of a cluster.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/registry.h"
#include "gateway/access.h"
#include "node/config.h"

namespace millrace::cli {

class KeyPlace {
 public:
  // The registry, if the settings name one. kInvalid for the directory of a node of a cluster: its file does
  // not count.
  static Result<KeyPlace> find(const node::Config& config);

  Result<gateway::KeyRing> load() const;
  struct Edited {
    gateway::KeyRing ring;
    std::vector<std::string> waiting;  // URLs of nodes that did not say that they know it
  };
  // Of a cluster: waits some seconds until all nodes that serve know it.
  Result<Edited> edit(const std::function<Status(gateway::KeyRing&)>& change) const;

  const std::string& text() const { return text_; }
  bool is_cluster() const { return registry_ != nullptr; }

 private:
  std::string text_;
  std::shared_ptr<cluster::Registry> registry_;  // null: the file
  std::string ca_file_;                          // of its nodes
};

}  // namespace millrace::cli
