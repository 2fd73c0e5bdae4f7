// ClusterBuckets: the buckets of a cluster, kept in its registry, with a copy in memory.
//
// A change is written to the registry first; every node reads it again when the registry's watch tells, or
// when another node asks for it (RefreshRequest). Reading: any thread, never blocks. The rest blocks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/snapshot.h"
#include "cluster/registry.h"
#include "store/bucket.h"

namespace millrace::cluster {

class ClusterBuckets {
 public:
  explicit ClusterBuckets(Registry& registry) : registry_(registry) {}

  std::shared_ptr<const store::Bucket> find(std::string_view name) const;
  std::vector<std::shared_ptr<const store::Bucket>> all() const;

  Status refresh();
  // From the newest epoch of the map on objects of the bucket may be written. If there was a bucket of that
  // name, the epoch is one in which nothing was written to it: what a node that was away may still have of it
  // is older, and counts no more.
  Status create(const std::string& name, const store::BucketSettings& settings);
  // The redundancy with which the bucket was made stays; the map says another one from the next epoch on.
  Status change(const std::string& name, const store::BucketSettings& settings);
  // Removing takes two steps: once all nodes know that the bucket is closing, nothing new gets into it.
  // close() gives the version that is to be removed; one that was open since has another.
  Result<uint64_t> close(const std::string& name);
  Status reopen(const std::string& name);
  Status remove(const std::string& name, uint64_t version);

 private:
  Result<uint32_t> choose_first_epoch(const std::string& name);
  enum class Standing : uint8_t { kOpen, kClosing };
  Result<uint64_t> set_standing(const std::string& name, Standing standing);

  using Table = std::map<std::string, std::shared_ptr<const store::Bucket>, std::less<>>;

  Registry& registry_;
  Mutex refreshing_;  // an older reading never replaces a newer one
  Snapshot<Table> table_{std::make_shared<const Table>()};
};

}  // namespace millrace::cluster
