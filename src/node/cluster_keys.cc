// Keys as one entry of the registry: docs/formats/registry.md.
#include "node/cluster_keys.h"

#include <string>
#include <utility>

#include "node/keys.h"

namespace millrace::node {

namespace {

const std::string kEntry(kKeysEntry);

Result<RevisedKeys> decode(const cluster::Entry& entry) {
  return RevisedKeys{MR_TRY(decode_keys(entry.value, "in the registry")), entry.revision};
}

}  // namespace

Result<RevisedKeys> load_cluster_keys(cluster::Registry& registry) {
  const auto entry = MR_TRY(registry.get(kEntry));
  if (entry) return decode(*entry);
  return make_error(Code::kNotFound, "the registry holds no keys: there is no cluster yet")
      .with_hint(
          "the first node brings its own: millrace keys create --data DIR, then millrace up --registry");
}

Result<RevisedKeys> edit_cluster_keys(cluster::Registry& registry,
                                      const std::function<Status(gateway::KeyRing&)>& change) {
  constexpr int kMostAttempts = 100;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    RevisedKeys keys = MR_TRY(load_cluster_keys(registry));
    MR_TRY(change(keys.ring));
    const auto revision = MR_TRY(registry.swap(kEntry, keys.revision, encode_keys(keys.ring)));
    if (!revision) continue;
    keys.revision = *revision;
    return keys;
  }
  return make_error(Code::kUnavailable, "the keys are being changed by others all the time");
}

Status ClusterKeys::begin(const gateway::KeyRing& own, Standing standing,
                          const std::function<Status(const gateway::KeyRing&)>& check) {
  // Whoever founds the cluster has brought his keys before: so in this order.
  const bool is_founded = MR_TRY(registry_.get("cluster")).has_value();
  if (!MR_TRY(registry_.get(kEntry))) {
    if (standing == Standing::kNew && is_founded) {
      return make_error(Code::kUnavailable, "no node of the cluster has brought its keys into the registry")
          .with_hint("start a node that belongs to the cluster first");
    }
    MR_TRY(check(own));
    // Whoever was faster has brought his.
    MR_TRY(registry_.swap(kEntry, 0, encode_keys(own)));
  }
  MR_TRY(refresh());
  return check(*current());
}

Status ClusterKeys::refresh() {
  const MutexLock lock(refreshing_);
  keys_.store(std::make_shared<const RevisedKeys>(MR_TRY(load_cluster_keys(registry_))));
  return {};
}

std::shared_ptr<const gateway::KeyRing> ClusterKeys::current() {
  const std::shared_ptr<const RevisedKeys> keys = keys_.load();
  return {keys, &keys->ring};
}

}  // namespace millrace::node
