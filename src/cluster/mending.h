// Mending: what is to be done so that an object lies where the map puts it, each holder with its slice and
// its mark. Pure: a function of the newest write, the placement, and what the drives said.
//
// A slice stays on its drive while that drive is one of the placement, or takes the turn of a full one, so
// that the least is moved. A drive that takes new slices and has none of the object's gets one whose drive is
// neither. A full drive gets none.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "cluster/ledger.h"
#include "cluster/map.h"
#include "store/record.h"

namespace millrace::cluster {

struct Mending {
  struct Slice {
    unsigned slot = 0;
    DriveId drive = 0;
  };
  std::vector<Slice> builds;        // slices to be made before anything else
  std::vector<DriveId> holders;     // by slot, after that
  bool moves = false;               // the holders change: a commit says so
  std::vector<DriveId> unmarked;    // drives that are to know the newest write and do not
  std::vector<DriveId> incomplete;  // drives that do not know that its commit is whole
  std::vector<Slice> superfluous;   // slices that were prepared and are another drive's by now
  std::vector<DriveId> strays;      // drives that are to know nothing, once all others know
  bool waits = false;  // a slice stays where the map does not put it: its drive may come back, or
                       // no other drive is there
  size_t slices = 0;   // different ones that were found
};

struct MendingView {
  const store::Record& last;                // a tombstone too
  const std::vector<DriveId>& placement;    // of its slices, by the newest map
  size_t wanted = 0;                        // drives: those of the bucket's redundancy of now; the
                                            // placement has fewer where the map has fewer
  const std::vector<DriveId>& takers;       // where new slices go: the placement, and others for full drives
  const std::vector<DriveId>& readers;      // whom readers ask: with all drives of the bucket's redundancy
  const std::map<DriveId, Ledger>& heard;   // drives that answered
  std::function<bool(DriveId)> may_return;  // a drive that did not answer is worth waiting for
};

Mending plan_mending(const MendingView& view);

}  // namespace millrace::cluster
