// Why a node of a cluster refuses something.
#pragma once

#include "base/error.h"

namespace millrace::cluster {

// The map changed since, or whoever is asked knows of a newer one: ask again with the newest map.
inline constexpr Reason kOldEpoch{Code::kUnavailable, "old epoch"};
// Whoever is asked does not act for this key: it is not the home, or its lease ended.
inline constexpr Reason kNotHome{Code::kUnavailable, "not the home"};
// What the object is cannot be known now: too many of those who may know are away.
inline constexpr Reason kUndecided{Code::kUnavailable, "undecided"};
// Holders of a write went away before it was committed: it did not happen.
inline constexpr Reason kHoldersChanged{Code::kUnavailable, "holders changed"};
// The node could not be reached at all: it did not get the message, and never will.
inline constexpr Reason kNotDelivered{Code::kUnavailable, "not delivered"};
// Too few slices of the object can be reached to make one that is missing.
inline constexpr Reason kTooFewSlices{Code::kUnavailable, "too few slices"};
// It is not time yet: the node that lacks may come back.
inline constexpr Reason kNotYet{Code::kUnavailable, "not yet"};
// The bucket is being removed.
inline constexpr Reason kClosing{Code::kUnavailable, "closing"};
// The write may have happened or not.
inline constexpr Reason kOutcomeUnknown{Code::kUnavailable, "outcome unknown"};
// A mark for a slice that the drive does not have, or that is older than the one it has.
inline constexpr Reason kMarkRefused{Code::kUnavailable, "mark refused"};

}  // namespace millrace::cluster
