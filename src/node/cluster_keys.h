// ClusterKeys: the access keys of a cluster, kept in its registry, with a copy in memory.
//
// All keys are one entry, `keys`, in the form of the key file (node/keys.h). The first node brings its key
// file in; from then on the entry counts and key files of nodes do not. Nodes read it again when the
// registry's watch tells. current() and revision(): any thread, never block. The rest blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/mutex.h"
#include "base/result.h"
#include "base/snapshot.h"
#include "cluster/registry.h"
#include "gateway/access.h"

namespace millrace::node {

inline constexpr std::string_view kKeysEntry = "keys";

struct RevisedKeys {
  gateway::KeyRing ring;
  uint64_t revision = 0;  // of the registry
};

// kNotFound: nobody has brought keys, not even none of them; there is no cluster yet.
Result<RevisedKeys> load_cluster_keys(cluster::Registry& registry);
// Where `change` fails, nothing is changed. Of several who change keys at once none undoes what another did.
Result<RevisedKeys> edit_cluster_keys(cluster::Registry& registry,
                                      const std::function<Status(gateway::KeyRing&)>& change);

class ClusterKeys final : public gateway::KeySource {
 public:
  explicit ClusterKeys(cluster::Registry& registry) : registry_(registry) {}

  // The keys that are in the registry, or these if it has none. `kMember`: the node belongs to the cluster.
  enum class Standing : uint8_t { kNew, kMember };
  Status begin(const gateway::KeyRing& own, Standing standing,
               const std::function<Status(const gateway::KeyRing&)>& check);
  Status refresh();
  std::shared_ptr<const gateway::KeyRing> current() override;
  uint64_t revision() const { return keys_.load()->revision; }

 private:
  cluster::Registry& registry_;
  Mutex refreshing_;  // an older reading never replaces a newer one
  Snapshot<RevisedKeys> keys_{std::make_shared<const RevisedKeys>()};
};

}  // namespace millrace::node
