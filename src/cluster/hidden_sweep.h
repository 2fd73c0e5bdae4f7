// HiddenSweep: removes what hidden buckets hold and nobody needs any more: parts without an upload and
// without an object, and indexes without their shard.
//
// It looks at an upload when it is told to: after a completion or an abort at once; after an object that was
// made of parts was replaced, once nobody reads the old one any more. Every half hour, and at the start, it
// also walks over the parts and indexes on this node's drives whose home this node is. So what a crash left
// goes too.
//
// One thread of its own, which waits for nodes. look_at() may be called by any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/background.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cluster/cluster.h"
#include "cluster/cluster_buckets.h"
#include "store/objects.h"

namespace millrace::cluster {

class HiddenSweep {
 public:
  static constexpr auto kLookEvery = std::chrono::seconds(1);
  static constexpr uint64_t kWalkEveryUs = 1'800'000'000;
  static constexpr uint64_t kRetryUs = 10'000'000;
  static constexpr unsigned kMostTurns = 30;       // for one upload; then the walk finds it
  static constexpr size_t kMostWaiting = 100'000;  // uploads; others wait for the walk

  // Readers of a replaced object have so long.
  HiddenSweep(Cluster& cluster, const ClusterBuckets& buckets, Log& log, uint64_t keep_replaced_us)
      : cluster_(cluster), buckets_(buckets), log_(log), keep_replaced_us_(keep_replaced_us) {}

  void start();
  // Before the strand ends.
  void stop() { thread_.stop(); }

  enum class When : uint8_t { kNow, kUnread };
  void look_at(const store::UploadName& name, When when);
  // An object was replaced or removed.
  void look_after(const ObjectName& name, const store::Record& old);

 private:
  enum class Kind : uint8_t { kParts, kIndex };
  struct Task {
    Kind kind = Kind::kParts;
    store::UploadName name;  // of an index: its shard, and its own key instead of an upload
    uint64_t due_us = 0;
    unsigned turns = 0;
  };
  // Whose parts are needed.
  struct Need {
    bool all = false;          // the upload is under way
    std::set<uint64_t> files;  // else those of the object
  };

  void run();
  void add(Task task);
  std::vector<Task> take_due();
  Status sweep(const Task& task);
  Status sweep_parts(const store::UploadName& name);
  Status sweep_index(const store::UploadName& name);
  // Whether the shard of an index is still the one that it was made for.
  Result<bool> needs_index(const store::UploadName& name);
  void add_index(const ObjectName& shard, const std::string& index);
  Result<Need> judge(const store::UploadName& name);
  void walk();
  Status walk_parts(uint64_t drive, const std::string& bucket);
  Status walk_indexes(uint64_t drive, const std::string& bucket);
  // Calls `visit` with what one drive has of a hidden bucket and this node is the home of.
  using Visit = std::function<void(const std::string& key, const store::Record& record)>;
  Status walk_rows(uint64_t drive, const std::string& hidden, const Visit& visit);

  Cluster& cluster_;
  const ClusterBuckets& buckets_;
  Log& log_;
  const uint64_t keep_replaced_us_;
  uint64_t walked_us_ = 0;  // of the thread alone
  Mutex mutex_;
  std::vector<Task> tasks_ MR_GUARDED_BY(mutex_);
  Background thread_;  // last: a round uses all of the above
};

}  // namespace millrace::cluster
