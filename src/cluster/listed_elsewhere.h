// Who lists a key that several drives know: k of them, not all.
//
// A node that lists asks every drive. A write that is complete is marked by all holders but k-1. So if all
// drives that live answer, and no drive missed anything because it was away, the first k holders that live
// know the newest write among them, and the others need not send what they know. Whether a drive may have
// missed something is judged by the maps: each one that is open has to place objects as the newest does.
#pragma once

#include "cluster/ledger.h"
#include "cluster/map.h"

namespace millrace::cluster {

// Whether every open map puts every object where the newest one does.
bool places_all_alike(const Maps& maps);

// Whether enough drives that are alive in this map come before `drive` among the holders of what the row
// says. Never true of removals, and of writes that are not complete.
Result<bool> is_listed_elsewhere(const LedgerSummary& row, DriveId drive, const Map& map);

}  // namespace millrace::cluster
