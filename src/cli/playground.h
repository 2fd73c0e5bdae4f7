// Playground: a cluster of several nodes on this machine's loopback, each a process below this one.
//
// For trying things out: one may kill a node and see what the others do. The nodes end with this process,
// however it ends.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/node_flags.h"
#include "cli/shell.h"

namespace millrace::cli {

inline constexpr unsigned kLeastPlayers = 2;
inline constexpr unsigned kMostPlayers = 16;

// Runs until it is told to stop, or every node has ended. Ports count upwards from that of `listen`; data is
// in DATA/node1 and so on, the registry in DATA/registry. An error where a node cannot start; then all others
// are stopped.
Status run_playground(Shell& shell, const NodeFlags& flags, unsigned nodes);

}  // namespace millrace::cli
