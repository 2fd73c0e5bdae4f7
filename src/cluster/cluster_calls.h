// Calls of Cluster that wait for their answers: on threads that may block, never on the strand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"

namespace millrace::cluster {

// Nothing: there is no such object.
Result<std::optional<store::Record>> find_now(Cluster& cluster, const ObjectName& name);

// Removing nothing is fine, unless the condition wants something.
Status remove_now(Cluster& cluster, const ObjectName& name, store::Condition condition);

// Writes an object that has no bytes of its own: its record says everything. did_nothing() tells whether an
// error left everything as it was.
Result<store::Record> put_without_bytes(Cluster& cluster, const ObjectName& name, store::Record record,
                                        const store::Condition& condition);

// Removes the objects of one bucket, some at a time. The first error, after all were tried.
Status remove_all(Cluster& cluster, const std::string& bucket, const std::vector<std::string>& keys);
// All that a hidden bucket has.
Status empty_hidden(Cluster& cluster, const std::string& hidden);

}  // namespace millrace::cluster
