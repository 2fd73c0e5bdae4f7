// From names of damaged slices to their objects, and from there to whole slices.
#include "cluster/slice_repair.h"

#include <utility>

#include "base/clock.h"
#include "cluster/cluster_calls.h"
#include "cluster/ledger.h"
#include "cluster/reasons.h"
#include "cluster/slice_shelf.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

constexpr size_t kPage = 1000;

}  // namespace

void SliceRepair::start() {
  thread_.start(kLookEvery, [this] { run(); });
}

std::vector<SliceRepair::Repair> SliceRepair::recent() const {
  const MutexLock lock(mutex_);
  return {recent_.begin(), recent_.end()};
}

std::map<DriveId, SliceRepair::OfDrive> SliceRepair::find_due() {
  std::map<DriveId, OfDrive> due;
  std::map<std::string, uint64_t> tried;
  const uint64_t now = steady_us();
  const std::vector<Damaged> damaged = cluster_.slices().damaged();
  waiting_ = damaged.size();
  for (const Damaged& one : damaged) {
    const auto before = tried_us_.find(one.name);
    const bool waits = before != tried_us_.end() && now - before->second < kRetryUs;
    tried[one.name] = waits ? before->second : now;
    if (!waits) due[one.drive].emplace(one.name, one);
  }
  tried_us_ = std::move(tried);
  return due;
}

void SliceRepair::run() {
  for (auto& [drive, damaged] : find_due()) {
    const Status looked = look_through(drive, damaged);
    if (!looked)
      log_.warn("damaged slices cannot be looked for", "drive", drive, "error", looked.error().message());
    // No object needs the others. Once they are removed nothing is left to be repaired.
    for (const auto& [name, one] : damaged) {
      const auto slice = cluster_.slices().get(name);
      if (!slice && slice.error().code() == Code::kNotFound) cluster_.slices().forget_damage(name);
    }
  }
  waiting_ = cluster_.slices().damaged().size();
}

Status SliceRepair::look_through(DriveId drive, OfDrive& damaged) {
  ObjectName after;
  while (!damaged.empty() && thread_.goes_on()) {
    const auto rows = MR_TRY(cluster_.slices().walk_ledgers(drive, after.bucket, after.key, kPage));
    for (const store::Slices::LedgerRow& row : rows) {
      store::Decoder in(row.value);
      const Ledger ledger = MR_TRY(decode_ledger(in).within(row.bucket + "/" + row.key));
      if (ledger.mark) repair_of({row.bucket, row.key}, ledger, drive, damaged);
    }
    if (rows.size() < kPage) break;
    after = {rows.back().bucket, rows.back().key};
  }
  return {};
}

void SliceRepair::repair_of(const ObjectName& name, const Ledger& ledger, DriveId drive, OfDrive& damaged) {
  const Mark& mark = *ledger.mark;
  if (!mark.has_slice || !has_slice_beside(mark.record)) return;
  const std::string& write_id = mark.record.spread.write_id;
  for (const unsigned slot : ledger.slots_of(write_id)) {
    const auto found = damaged.find(slice_name(write_id, slot, drive));
    if (found == damaged.end()) continue;
    const Damaged one = std::move(found->second);
    damaged.erase(found);
    if (!thread_.goes_on()) return;
    if (const Status repaired = repair(name, mark, slot, one); !repaired)
      log_.warn("a damaged slice cannot be made again", "bucket", name.bucket, "key", name.key, "slot", slot,
                "drive", drive, "block", one.block, "error", repaired.error().message());
  }
}

Result<bool> SliceRepair::is_whole(const std::string& slice) const {
  const auto checked = cluster_.slices().check(slice, {});
  if (checked) return checked->bad_blocks.empty();
  const Code code = checked.error().code();
  // Missing, or so damaged that nothing can be compared. Others say nothing about the slice.
  if (code == Code::kNotFound || code == Code::kCorrupt || code == Code::kTruncated) return false;
  return checked.error().copy();
}

Status SliceRepair::repair(const ObjectName& name, const Mark& mark, unsigned slot, const Damaged& damaged) {
  if (MR_TRY(is_whole(damaged.name))) {
    cluster_.slices().forget_damage(damaged.name);
    return {};
  }
  const auto now = MR_TRY(find_now(cluster_, name));
  const store::Spread& known = mark.record.spread;
  const bool is_holder = now && now->spread.write_id == known.write_id && slot < now->spread.holders.size() &&
                         now->spread.holders[slot] == damaged.drive;
  if (!is_holder) return {};  // it was replaced or moved, and goes soon
  if (now->spread.holders.size() <= now->spread.k)
    return make_error(kTooFewSlices, "the object has no other slices to make it from");
  SliceBuilder::Order order{name, *now, now->spread, damaged.drive, {slot}};
  order.spread.slot = static_cast<uint8_t>(slot);
  order.pace = SliceBuilder::Order::Pace::kNow;
  MR_TRY(store::wait_for<uint64_t>(
      [&](Done<uint64_t> built) { cluster_.rebuild(std::move(order), std::move(built)); }));
  if (!MR_TRY(is_whole(damaged.name))) return make_error(Code::kCorrupt, "it was damaged again");
  cluster_.slices().forget_damage(damaged.name);
  note({name, slot, damaged.drive, damaged.block, damaged.what, wall_ms()});
  return {};
}

void SliceRepair::note(Repair repair) {
  ++repaired_;
  log_.info("a damaged slice was made again", "bucket", repair.name.bucket, "key", repair.name.key, "slot",
            repair.slot, "drive", repair.drive, "block", repair.block, "what", repair.what);
  const MutexLock lock(mutex_);
  recent_.push_back(std::move(repair));
  if (recent_.size() > kMostRecent) recent_.pop_front();
}

}  // namespace millrace::cluster
