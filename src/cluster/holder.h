// Holder: one node as the keeper of slices and marks. It takes slices, marks and promises, and tells them.
//
// Rules, each of which the simulation shows to be needed:
// - A mark of an epoch below the promise is refused: its home was overtaken.
// - A drive that belongs to the write's holders marks only a slice that it has.
// - A tombstone is a mark like any other. It stays until nobody can know anything older.
// - A slice that another drive holds by the newest mark goes.
// Work on one ledger is done in the order it came, so that no sync overlooks a mark that was accepted before
// it. On the strand.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "cluster/message.h"
#include "cluster/peers.h"

namespace millrace::cluster {

class Holder {
 public:
  Holder(Shelf& shelf, Membership& membership) : shelf_(shelf), membership_(membership) {}

  void prepare(PrepareRequest request, Done<Reply> done);
  // A slice that is durable, or is durable with its entry.
  void enter(DriveId drive, const ObjectName& name, const Prepared& slice, Done<void> done);
  void tell(StateRequest request, Done<Reply> done);
  void mark(MarkRequest request, Done<Reply> done);
  void complete(CompleteRequest request, Done<Reply> done);
  // Forgets a slice that is prepared and not marked.
  void drop(DropRequest request, Done<Reply> done);
  void forget(ForgetRequest request, Done<Reply> done);
  void compare(CompareRequest request, Done<Reply> done);

  // The newest epoch that was promised; in memory at once, durable before the answer to whom it was promised.
  uint32_t promised() const;

 private:
  using Place = std::pair<DriveId, ObjectName>;
  using Work = std::function<void(std::function<void()> finished)>;
  // Runs `work` when all work before it on this ledger is finished.
  void in_turn(Place place, Work work);
  void run_next(const Place& place);
  void tell_all(std::shared_ptr<const StateRequest> request, Done<Reply> done);
  // What a bucket of before had under this name.
  void hide_removed(const ObjectName& name, Ledger& ledger) const;
  void mark_now(const MarkRequest& request, Ledger ledger, Done<Reply> done);
  struct Comparison;
  void compare_next(const std::shared_ptr<Comparison>& comparison);
  bool may_forget(const ForgetRequest& request, const Mark& mark) const;

  Shelf& shelf_;
  Membership& membership_;
  uint32_t promising_ = 0;  // on its way to the drives
  std::map<Place, std::deque<Work>> turns_;
};

}  // namespace millrace::cluster
