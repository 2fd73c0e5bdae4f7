// SliceSweep: removes slices of this node's drives that an earlier run left behind and no ledger names.
//
// A slice that was replaced stays readable for a while and is removed after that. Where the node stops in
// between, or dies between a slice and its ledger, nobody knows of the slice any more. So the drives are gone
// over some time after the start, once more when everything from before the start is old, and then now and
// then, for drives that come later.
//
// Only slices go that were there before this process began (by the store's versions), that are an hour old,
// and that two readings of all ledgers of their drive do not name. A slice is written before its ledger, so a
// slice of this process may be in use without one. One thread of its own. sweep(): one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/background.h"
#include "base/log.h"
#include "base/result.h"
#include "cluster/ledger.h"
#include "cluster/map.h"
#include "store/slices.h"

namespace millrace::cluster {

class SliceSweep {
 public:
  static constexpr auto kLookEvery = std::chrono::seconds(10);
  static constexpr uint64_t kFirstUs = 120'000'000;  // replaced slices have their readers till then
  static constexpr uint64_t kAgainUs = uint64_t{6} * 3600 * 1'000'000;
  static constexpr int64_t kLeastAgeMs = 3'600'000;
  static constexpr size_t kMostAtOnce = 10'000;  // what is more waits for the next time

  SliceSweep(store::Slices& slices, Log& log) : slices_(slices), log_(log) {}

  void start();
  void stop() { thread_.stop(); }

  // Goes over one drive as it is at this time (wall clock); how many slices it removed.
  Result<uint64_t> sweep(DriveId drive, int64_t now_ms);

 private:
  using OldSlice = store::Slices::OldSlice;
  using Visit = std::function<void(const std::string& write)>;

  void run();
  // Calls `visit` with every write that has a slice on this drive, as slices are named.
  Status visit_named(DriveId drive, const Visit& visit);
  Result<std::vector<OldSlice>> find_unnamed(DriveId drive, int64_t now_ms);

  store::Slices& slices_;
  Log& log_;
  uint64_t due_us_ = 0;  // of the thread alone
  uint64_t pause_us_ = 0;
  Background thread_;  // last: a round uses all of the above
};

}  // namespace millrace::cluster
