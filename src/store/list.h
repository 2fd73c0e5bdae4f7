// Listing: the keys of one bucket in order, merged over all drives.
//
// The newest record of a key counts, tombstones are hidden, common prefixes are stepped over by seeking,
// never by reading through them. Blocks.
#pragma once

#include <string>

#include "base/result.h"
#include "store/core.h"

namespace millrace::store {

// `moves`: see Core.
Result<ListPage> list_objects(const DriveMap& map, const std::string& bucket, const ListOptions& options,
                              const std::atomic<uint64_t>& moves);

}  // namespace millrace::store
