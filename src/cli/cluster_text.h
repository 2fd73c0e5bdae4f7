// The answers about a cluster as a person reads them. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "cli/shell.h"

namespace millrace::cli {

// Of GET /-/cluster: a table of the nodes, and a last line that says what to do. `now_ms` is wall time.
std::string cluster_text(const Json& cluster, int64_t now_ms);
// Of GET /-/cluster/where: a table of the slices, and whether enough of them can be reached.
std::string where_text(const Json& where);
// Of POST /-/cluster/verify: a line about one finding.
std::string finding_text(const Json& finding);

}  // namespace millrace::cli
