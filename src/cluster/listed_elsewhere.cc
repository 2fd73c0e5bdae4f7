// Counts the holders before a drive.
#include "cluster/listed_elsewhere.h"

#include <algorithm>

namespace millrace::cluster {

bool places_all_alike(const Maps& maps) {
  const Map& newest = *maps.back();
  return std::ranges::all_of(maps, [&](const auto& map) { return map->places_like(newest); });
}

Result<bool> is_listed_elsewhere(const LedgerSummary& row, DriveId drive, const Map& map) {
  if (row.object.deleted || !row.complete) return false;
  const store::Spread spread = MR_TRY(store::decode_spread_of(row.record));
  const auto own = std::ranges::find(spread.holders, drive);
  if (own == spread.holders.end()) return false;
  const auto before =
      std::count_if(spread.holders.begin(), own, [&](DriveId holder) { return map.is_alive(holder); });
  return before >= spread.k;
}

}  // namespace millrace::cluster
