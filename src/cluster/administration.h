// Administration: everything under /-/: health, metrics, status, drives, buckets, the scrubber.
//
// Answers are JSON. Health is for everyone; the rest needs open mode or a key with the right `admin` (metrics
// and status: any key, or a client on this machine).
#pragma once

#include "cluster/call.h"
#include "cluster/meters.h"
#include "net/server.h"

namespace millrace::cluster {

struct NodeView {
  Services& services;
  const net::Server& server;
  const Meters& meters;
  uint64_t started_us;
};

net::Task<Status> administer(Call& call, NodeView view);

}  // namespace millrace::cluster
