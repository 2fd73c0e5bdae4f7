// Reconcile: a drive that missed commits is compared with all others, and what is older on it goes.
//
// A drive misses a commit when it was missing or had failed while a key that it holds was overwritten or
// deleted. Until this was done its records count only while every other drive can be asked
// (Core::check_newest). Blocks; one caller at a time. It may be cut short at any point: the drive stays
// behind, and the next turn begins anew.
#pragma once

#include <functional>

#include "store/core.h"

namespace millrace::store {

// All drives that are behind, where every known drive is there and works. `go_on` is asked now and then.
void reconcile_drives(Core& core, const std::function<bool()>& go_on);

// Whether every known drive is there and works.
bool is_complete(const DriveMap& map);

// Takes away all but the newest record of a key, and its marks once every drive has heard of them.
Status tidy_key(Core& core, std::string_view encoded_key);

// Takes away the marks of deleted and superseded keys that every drive has heard of.
void forget_marks(Core& core, const std::function<bool()>& go_on);

}  // namespace millrace::store
