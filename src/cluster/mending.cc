// Slots to drives: first those who have a slice, then those who have none.
#include "cluster/mending.h"

#include <algorithm>
#include <utility>

namespace millrace::cluster {

namespace {

// What lies there need not be moved.
bool is_place(const MendingView& view, DriveId drive) {
  return contains(view.placement, drive) || contains(view.takers, drive);
}

// Which slots of the write each drive has.
using FoundSlices = std::map<DriveId, std::vector<unsigned>>;
FoundSlices find_slices(const MendingView& view) {
  FoundSlices slices;
  for (const auto& [drive, ledger] : view.heard) {
    std::vector<unsigned> slots = ledger.slots_of(view.last.spread.write_id);
    if (!slots.empty()) slices[drive] = std::move(slots);
  }
  return slices;
}

// Gives each slot its drive, as far as there are drives.
class Assignment {
 public:
  Assignment(const MendingView& view, const FoundSlices& slices)
      : view_(view), slices_(slices), slots_(view.wanted) {}

  void run(Mending& mending) {
    const std::vector<DriveId>& now = view_.last.spread.holders;
    for (size_t slot = 0; slot < now.size() && slot < slots_.size(); ++slot) {
      if (has(now[slot], slot)) give(slot, now[slot]);
    }
    for (const std::vector<DriveId>* drives : {&view_.placement, &view_.takers}) {
      for (const DriveId drive : *drives) take_what_it_has(drive);
    }
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot] != 0) continue;
      const DriveId before = slot < now.size() ? now[slot] : 0;
      if (before != 0 && !view_.heard.contains(before) && view_.may_return(before)) {
        mending.waits = true;
      } else if (const DriveId drive = find_free(); drive != 0) {
        give(slot, drive);
        continue;
      }
      if (before == 0) break;  // slots are numbered without gaps
      slots_[slot] = before;   // where it is, or was: nothing better is there
      if (view_.heard.contains(before)) mending.waits = true;
    }
    for (size_t slot = 0; slot < slots_.size() && slots_[slot] != 0; ++slot)
      mending.holders.push_back(slots_[slot]);
  }

 private:
  // In its place already.
  bool has(DriveId drive, size_t slot) const {
    const auto found = slices_.find(drive);
    return found != slices_.end() && is_place(view_, drive) &&
           std::ranges::find(found->second, slot) != found->second.end();
  }
  void take_what_it_has(DriveId drive) {
    for (size_t slot = 0; slot < slots_.size() && !used_.contains(drive); ++slot) {
      if (slots_[slot] == 0 && has(drive, slot)) give(slot, drive);
    }
  }
  void give(size_t slot, DriveId drive) {
    slots_[slot] = drive;
    used_.insert(drive);
  }
  DriveId find_free() const {
    for (const DriveId drive : view_.takers) {
      if (!used_.contains(drive) && view_.heard.contains(drive)) return drive;
    }
    return 0;
  }

  const MendingView& view_;
  const FoundSlices& slices_;
  std::vector<DriveId> slots_;  // 0: nobody
  std::set<DriveId> used_;
};

void plan_slices(const MendingView& view, Mending& mending) {
  const FoundSlices slices = find_slices(view);
  std::set<unsigned> found;
  for (const auto& [drive, slots] : slices) found.insert(slots.begin(), slots.end());
  mending.slices = found.size();
  Assignment(view, slices).run(mending);
  const size_t slots = size_t{view.last.spread.k} + view.last.spread.m;
  mending.moves = mending.holders != view.last.spread.holders || slots != view.wanted;
  store::Spread spread = view.last.spread;
  spread.holders = mending.holders;
  for (unsigned slot = 0; slot < mending.holders.size(); ++slot) {
    const DriveId drive = mending.holders[slot];
    const auto heard = view.heard.find(drive);
    if (contains(view.takers, drive) && heard != view.heard.end() && !heard->second.held_slot(spread, drive))
      mending.builds.push_back({slot, drive});
  }
  for (const auto& [drive, ledger] : view.heard) {
    for (const Prepared& slice : ledger.prepared) {
      const unsigned slot = slice.spread.slot;
      if (slice.spread.write_id != spread.write_id) continue;
      if (slot >= mending.holders.size() || mending.holders[slot] != drive)
        mending.superfluous.push_back({slot, drive});
    }
  }
}

}  // namespace

Mending plan_mending(const MendingView& view) {
  Mending mending;
  if (!view.last.deleted) plan_slices(view, mending);
  for (const auto& [drive, ledger] : view.heard) {
    const bool knows = ledger.mark && ledger.mark->record.version == view.last.version;
    const bool concerned = contains(view.placement, drive) || contains(mending.holders, drive);
    if (!concerned && !ledger.mark) continue;
    if (!concerned && !contains(view.readers, drive)) {
      // Where drives lack, an old place is better than none: what two drives know is not left to one.
      if (view.placement.size() < view.wanted) {
        mending.waits = true;
      } else {
        mending.strays.push_back(drive);
      }
    } else if (!knows) {
      mending.unmarked.push_back(drive);
    } else if (!ledger.mark->complete) {
      mending.incomplete.push_back(drive);
    }
  }
  return mending;
}

}  // namespace millrace::cluster
