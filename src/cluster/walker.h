// Walker: goes over the rows of this node's drives again and again, and has everything mended that does not
// lie where the newest map puts it.
//
// Rows of keys whose home is this node are mended here (cluster/mender.h). A row that lies in the wrong
// place, or that its home knows otherwise, is told to the home: the home's drive is asked about many rows at
// once. A walk goes over all rows twice: first it finds the objects that lack slices, and has those with the
// fewest left mended first; then it looks at every key.
//
// After a change of the map only those keys are looked at that a clean walk before has not seen in the same
// place; every six hours all of them.
//
// A walk that found everything in order, by one map, is noted (Membership::note_walked). When all nodes
// have noted an epoch, the leader closes those before it, and tombstones of closed epochs go. A slice that
// was prepared and that nobody commits for an hour goes too. On the strand, but for progress().
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cluster/ledger.h"
#include "cluster/map.h"
#include "cluster/peers.h"
#include "cluster/progress.h"

namespace millrace::cluster {

class Mender;

struct WalkerOptions {
  size_t at_once = 4;                     // keys
  size_t page = 256;                      // rows
  uint64_t again_us = 6 * 3'600'000'000;  // after a walk that found all in order
  uint64_t recount_us = 15'000'000;       // while objects lack slices that other homes make
  uint64_t retry_us = 5'000'000;          // after one that did not
  uint64_t litter_us = 3'600'000'000;     // how long a slice that nobody commits stays
};

class Walker {
 public:
  static constexpr size_t kMostUrgent = 100'000;  // keys; what is more waits for the second look
  static constexpr size_t kMostLitter = 100'000;

  Walker(Strand& strand, Peers& peers, Membership& membership, Shelf& shelf, Mender& mender)
      : strand_(strand), peers_(peers), membership_(membership), shelf_(shelf), mender_(mender) {}
  ~Walker();

  void start(const WalkerOptions& options);
  // A newer map is there: the walk begins again.
  void adopt_map();
  // Something was found missing or damaged.
  void look_again() { walk_after(0, Scope::kAll); }

  // Without what the mender counts.
  Progress progress() const;  // any thread

 private:
  struct Walk;
  struct Task;
  struct Compared;
  enum class Look : uint8_t { kUrgent, kAll };
  enum class Scope : uint8_t { kChanged, kAll };

  void begin(Scope scope);
  void next_page();
  void take_page(const std::vector<Shelf::Row>& rows);
  void look_at(const Shelf::Row& row);
  void look_at_prepared(const Shelf::Row& row);
  // Counts the object if this drive is the first of its holders that is there; how many slices are left.
  size_t count(const store::Record& record, const Redundancy& redundancy);
  // The last clean walk found the object in its place, and that is still its place.
  bool is_verified(const Shelf::Row& row, const std::vector<DriveId>& placed) const;
  bool is_urgent(const Shelf::Row& row, const std::vector<DriveId>& placed, size_t left) const;
  // What a bucket that was removed left on a drive that was away goes.
  void forget_removed(const Shelf::Row& row);
  // Asks the drive about the rows that were gathered for it.
  void compare(DriveId drive);
  void pump();
  void try_again();
  void run(const Task& task);
  // The key is in order: a slice that was prepared too long ago belongs to no object.
  void drop_litter(const Task& task);
  void hear(const std::shared_ptr<Walk>& walk, Status status);
  void end_look();
  void end_walk();
  // The node, or a drive of it, is to become empty.
  bool is_leaving(const Map& map) const;
  void walk_after(uint64_t us, Scope scope);

  Strand& strand_;
  Peers& peers_;
  Membership& membership_;
  Shelf& shelf_;
  Mender& mender_;
  WalkerOptions options_;
  bool started_ = false;
  std::shared_ptr<Walk> walk_;
  uint32_t verified_ = 0;                         // epoch of the last clean walk
  uint64_t planned_ = 0;                          // walks; the timer of an older plan does nothing
  std::map<std::string, uint64_t> litter_since_;  // by write id
  mutable Mutex mutex_;
  Progress progress_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::cluster
