// All ledgers into a table of bits, then all old slices past it, then the ledgers once more.
#include "cluster/slice_sweep.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "net/digest.h"
#include "store/coding.h"

namespace millrace::cluster {

namespace {

constexpr size_t kPage = 1000;

// Writes that may be named: 16 MiB for any number of them. Where two share a bit, an orphan is overlooked;
// with another seed it is found.
class NamedWrites {
 public:
  explicit NamedWrites(uint64_t seed) : seed_(seed), bits_(kBits) {}
  void add(const std::string& write) { bits_[hash64(write, seed_) % kBits] = true; }
  bool may_have(const std::string& write) const { return bits_[hash64(write, seed_) % kBits]; }

 private:
  static constexpr size_t kBits = size_t{1} << 27;
  const uint64_t seed_;
  std::vector<bool> bits_;
};

// The write of a slice on this drive, from its name (slice_name); empty where it is no such name.
std::string write_of(const std::string& name, DriveId drive) {
  if (!name.ends_with(fmt::format("@{:016x}", drive))) return {};
  return name.substr(0, name.find('.'));
}

}  // namespace

void SliceSweep::start() {
  due_us_ = steady_us() + kFirstUs;
  pause_us_ = uint64_t{kLeastAgeMs} * 1000;
  thread_.start(kLookEvery, [this] { run(); });
}

void SliceSweep::run() {
  if (steady_us() < due_us_) return;
  due_us_ = steady_us() + std::exchange(pause_us_, kAgainUs);
  for (const store::Slices::OwnDrive& drive : slices_.drives()) {
    if (!slices_.in_service(drive.hash)) continue;
    const auto removed = sweep(drive.hash, wall_ms());
    if (!removed) {
      log_.warn("slices of earlier runs cannot be looked for", "drive", drive.id, "error",
                removed.error().message());
    } else if (*removed > 0) {
      log_.info("slices of earlier runs that nobody needs were removed", "drive", drive.id, "slices",
                *removed);
    }
  }
}

Status SliceSweep::visit_named(DriveId drive, const Visit& visit) {
  ObjectName after;
  while (true) {
    if (!thread_.goes_on()) return make_error(Code::kCancelled, "the node stops");
    const auto rows = MR_TRY(slices_.walk_ledgers(drive, after.bucket, after.key, kPage));
    for (const store::Slices::LedgerRow& row : rows) {
      store::Decoder in(row.value);
      const Ledger ledger = MR_TRY(decode_ledger(in).within(row.bucket + "/" + row.key));
      for (const Prepared& slice : ledger.prepared) visit(net::to_hex(slice.spread.write_id));
      if (ledger.mark && ledger.mark->has_slice) visit(net::to_hex(ledger.mark->record.spread.write_id));
    }
    if (rows.size() < kPage) return {};
    after = {rows.back().bucket, rows.back().key};
  }
}

Result<std::vector<SliceSweep::OldSlice>> SliceSweep::find_unnamed(DriveId drive, int64_t now_ms) {
  NamedWrites named(steady_us());
  MR_TRY(visit_named(drive, [&](const std::string& write) { named.add(write); }));
  std::vector<OldSlice> found;
  std::string after;
  do {
    store::Slices::OldSlices page = MR_TRY(slices_.list_old(drive, after, kPage));
    for (OldSlice& one : page.slices) {
      const std::string write = write_of(one.name, drive);
      const bool is_old = one.modified_ms + kLeastAgeMs < now_ms;
      if (is_old && !write.empty() && !named.may_have(write)) found.push_back(std::move(one));
    }
    after = std::move(page.reached);
  } while (!after.empty() && found.size() < kMostAtOnce && thread_.goes_on());
  return found;
}

Result<uint64_t> SliceSweep::sweep(DriveId drive, int64_t now_ms) {
  std::multimap<std::string, OldSlice> by_write;
  for (OldSlice& one : MR_TRY(find_unnamed(drive, now_ms))) {
    std::string write = write_of(one.name, drive);
    by_write.emplace(std::move(write), std::move(one));
  }
  if (by_write.empty()) return uint64_t{0};
  MR_TRY(visit_named(drive, [&](const std::string& write) { by_write.erase(write); }));
  uint64_t removed = 0;
  for (const auto& [write, one] : by_write) {
    if (!thread_.goes_on()) break;
    if (MR_TRY(slices_.remove_old(one))) ++removed;
  }
  return removed;
}

}  // namespace millrace::cluster
