// Lists over all nodes: complete, or an error.
//
// Every node tells what its drives know of the keys; the newest version of a key counts. A list is complete
// if no write can be known to silent drives alone.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "store/objects.h"

namespace millrace::cluster {

// Blocks: on a worker.
Result<store::ListPage> list_cluster(Cluster& cluster, const std::string& bucket,
                                     const store::ListOptions& options);

// All objects of a bucket, which may be a hidden one, with their records: for those that are few and small.
struct ListedRecord {
  std::string key;
  store::Record record;
};
Result<std::vector<ListedRecord>> list_records(Cluster& cluster, const std::string& bucket,
                                               const std::string& prefix);

// Those behind `after`, for a bucket with many.
struct RecordPage {
  std::vector<ListedRecord> listed;  // by key
  std::string reached;               // where to go on; empty: these were the last
};
struct RecordRange {
  std::string bucket;
  std::string prefix;
  std::string after;
};
Result<RecordPage> list_some_records(Cluster& cluster, const RecordRange& range);

}  // namespace millrace::cluster
