// The node's counters as Prometheus reads them: operations, drives, the scrubber, the server.
#pragma once

#include <string>

#include "gateway/meters.h"
#include "net/server.h"
#include "store/drives.h"

namespace millrace::node {

// Blocks: drives are asked.
std::string prometheus_text(const gateway::Meters& meters, store::Drives& drives, const net::Server& server);

}  // namespace millrace::node
