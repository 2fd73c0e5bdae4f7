// SliceRepair: makes slices of this node's drives again that readers or the scrubber found damaged.
//
// The store names a damaged slice by its file. So a round looks for the objects in the ledgers of the drive,
// compares the slice once more, has it made from the others in its place, and compares the new one. The old
// one stays until the new one is durable. What cannot be repaired now is tried again after a while, and stays
// in the store's list of damage.
//
// One thread of its own, which waits for drives and nodes. waiting(), repaired() and recent(): any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/background.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cluster/cluster.h"

namespace millrace::cluster {

class SliceRepair {
 public:
  static constexpr auto kLookEvery = std::chrono::seconds(2);
  static constexpr uint64_t kRetryUs = 60'000'000;
  static constexpr size_t kMostRecent = 100;

  // A slice that was made again.
  struct Repair {
    ObjectName name;
    unsigned slot = 0;
    DriveId drive = 0;
    uint64_t block = 0;  // the first one that was found damaged
    std::string what;
    int64_t at_ms = 0;  // wall clock, to be shown only
  };

  SliceRepair(Cluster& cluster, Log& log) : cluster_(cluster), log_(log) {}

  void start();
  // Before the strand ends.
  void stop() { thread_.stop(); }

  // Damaged slices that are known and were not made again.
  uint64_t waiting() const { return waiting_; }
  uint64_t repaired() const { return repaired_; }
  // The newest last.
  std::vector<Repair> recent() const;

 private:
  using Damaged = store::Slices::Damaged;
  // Damaged slices of one drive by name.
  using OfDrive = std::map<std::string, Damaged>;

  void run();
  // Those that were not tried lately.
  std::map<DriveId, OfDrive> find_due();
  // Repairs each slice that a ledger of the drive names, and takes it out of `damaged`.
  Status look_through(DriveId drive, OfDrive& damaged);
  void repair_of(const ObjectName& name, const Ledger& ledger, DriveId drive, OfDrive& damaged);
  Status repair(const ObjectName& name, const Mark& mark, unsigned slot, const Damaged& damaged);
  Result<bool> is_whole(const std::string& slice) const;
  void note(Repair repair);

  Cluster& cluster_;
  Log& log_;
  std::map<std::string, uint64_t> tried_us_;  // of the thread alone; by the slice's name
  std::atomic<uint64_t> waiting_ = 0;
  std::atomic<uint64_t> repaired_ = 0;
  mutable Mutex mutex_;
  std::deque<Repair> recent_ MR_GUARDED_BY(mutex_);
  Background thread_;  // last: a round uses all of the above
};

}  // namespace millrace::cluster
