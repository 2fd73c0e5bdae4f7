// A look at every ledger of this node's drives.
#include "cluster/needed.h"

#include "cluster/places.h"
#include "store/coding.h"

namespace millrace::cluster {

bool is_needed(const Map& map, const store::Record& record, const Redundancy& redundancy, DriveId drive) {
  const MapNode* const self = map.node_of(drive);
  if (self == nullptr) return false;
  size_t elsewhere = 0;
  DriveId first_here = 0;
  for (const DriveId holder : record.spread.holders) {
    if (!map.is_alive(holder)) continue;
    if (map.node_of(holder)->number != self->number) {
      ++elsewhere;
    } else if (first_here == 0) {
      first_here = holder;
    }
  }
  const size_t floor = size_t{redundancy.floor} - redundancy.k + record.spread.k;
  return first_here == drive && elsewhere < floor;
}

Result<NeededObjects> count_needed(Cluster& cluster) {
  constexpr size_t kPage = 1000;
  const auto map = cluster.membership().maps()->back();
  NeededObjects needed;
  for (const store::Slices::OwnDrive& drive : cluster.slices().drives()) {
    if (!cluster.slices().in_service(drive.hash)) continue;
    ObjectName after;
    while (true) {
      const auto rows = MR_TRY(cluster.slices().walk_ledgers(drive.hash, after.bucket, after.key, kPage));
      for (const store::Slices::LedgerRow& row : rows) {
        store::Decoder in(row.value);
        const Ledger ledger = MR_TRY(decode_ledger(in).within(row.bucket + "/" + row.key));
        if (!ledger.mark || ledger.mark->record.deleted) continue;
        const auto redundancy = redundancy_in(*map, row.bucket, cluster.membership());
        if (!redundancy || !is_needed(*map, ledger.mark->record, *redundancy, drive.hash)) continue;
        if (needed.count++ == 0) needed.example = {row.bucket, row.key};
      }
      if (rows.size() < kPage) break;
      after = {rows.back().bucket, rows.back().key};
    }
  }
  return needed;
}

}  // namespace millrace::cluster
