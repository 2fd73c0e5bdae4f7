// Lists over all nodes: complete, or an error.
//
// Every node tells what its drives know of the keys; the newest version of a key counts. A list is complete
// if no write can be known to silent drives alone.
#pragma once

#include <string>

#include "cluster/cluster.h"
#include "store/objects.h"

namespace millrace::cluster {

// Blocks: on a worker.
Result<store::ListPage> list_cluster(Cluster& cluster, const std::string& bucket,
                                     const store::ListOptions& options);

}  // namespace millrace::cluster
