// Join tokens: a secret that lets a new node into a cluster for a while.
//
// The registry keeps the token's SHA-256 only, under a lease that is never renewed: the registry ends the
// token, and no clock of a node decides. Any number of nodes may join with one token.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/registry.h"

namespace millrace::cluster {

// Up to kLongestLease. The text is shown once and kept nowhere.
Result<std::string> make_token(Registry& registry, std::chrono::milliseconds valid);
// False: there is no such token, or its time is over.
Result<bool> check_token(Registry& registry, std::string_view token);

}  // namespace millrace::cluster
