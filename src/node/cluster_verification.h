// POST /-/cluster/verify: one step of a verification (cluster/verification.h) as JSON.
//
// {"bucket": "train"} begins; {"bucket": "train", "next": …} goes on with what the answer before said there.
// The last answer of a bucket has none. Called on workers, any number at a time; it waits for holders.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "node/cluster_administration.h"

namespace millrace::node {

Result<nlohmann::ordered_json> verify_cluster(const JoinedCluster& joined,
                                              const nlohmann::ordered_json& request);

}  // namespace millrace::node
