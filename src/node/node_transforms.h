// NodeTransforms: transforms of one node: which there are, the engine that runs them, and what is kept.
//
// Wires transform/ to the gateway's interface and to administration. Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/background.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/workers.h"
#include "cluster/registry.h"
#include "gateway/transforms.h"
#include "node/config.h"
#include "node/transform_book.h"
#include "transform/engine.h"
#include "transform/kept_results.h"

namespace millrace::node {

class NodeTransforms final : public gateway::Transforms {
 public:
  struct Surroundings {
    cluster::Registry* registry = nullptr;  // of the cluster; null: the node is alone
    std::function<void()> tell_others;      // after a change, so that all nodes know it; may be empty
  };
  static Result<std::unique_ptr<NodeTransforms>> open(const Config& config, Surroundings around, Log& log);
  ~NodeTransforms() override;
  // Ends what runs. Before the store stops.
  void stop();

  Result<std::shared_ptr<const gateway::Transform>> get(const std::string& name) override;
  bool submit(std::function<void()> run, std::function<void()> cancel) override;
  std::optional<gateway::KeptResult> find_kept(const std::string& name) override;
  std::unique_ptr<gateway::KeptWriter> keep(const std::string& name) override;

  // Administration. They block.
  nlohmann::ordered_json list_json() const;
  Result<nlohmann::ordered_json> show_json(const std::string& name);
  Result<nlohmann::ordered_json> add(const std::string& name, const std::string& description);
  Result<nlohmann::ordered_json> remove(const std::string& name);
  // From the registry; also when another node says so.
  Status refresh() { return book_.refresh(); }

  const transform::Engine& engine() const { return engine_; }
  transform::KeptResults::Reading kept() const { return kept_->read(); }

 private:
  class OneTransform;
  NodeTransforms(std::unique_ptr<cluster::Registry> own, Surroundings around, unsigned runs);
  std::shared_ptr<const transform::Registered> find_or_refresh(const std::string& name);

  const std::unique_ptr<cluster::Registry> own_;
  const Surroundings around_;
  TransformBook book_;
  transform::Engine engine_;
  std::unique_ptr<transform::KeptResults> kept_;
  Workers runs_;
  Mutex running_mutex_;
  std::list<std::function<void()>> cancels_ MR_GUARDED_BY(running_mutex_);  // of runs under way
  bool stopping_ MR_GUARDED_BY(running_mutex_) = false;
  Background reader_;
  std::unique_ptr<cluster::Watch> watch_;
};

}  // namespace millrace::node
