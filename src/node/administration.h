// NodeAdministration: everything under /-/: health, metrics, status, drives, buckets, the scrubber.
//
// Answers are JSON. Health is for everyone; the rest needs open mode or a key with the right `admin` (metrics
// and status: any key, or a client on this machine).
#pragma once

#include <string_view>

#include "gateway/gateway.h"
#include "net/server.h"
#include "store/local_store.h"

namespace millrace::node {

class NodeAdministration final : public gateway::Administration {
 public:
  explicit NodeAdministration(store::LocalStore& store);
  // What it reports on; both come after it, and before the first call.
  void attach(const net::Server& server, const gateway::Meters& meters);

  net::Task<Status> serve(gateway::Call& call) override;

 private:
  net::Task<Status> look(gateway::Call& call, std::string_view what);
  net::Task<Status> change(gateway::Call& call, std::string_view what);

  store::LocalStore& store_;
  const net::Server* server_ = nullptr;
  const gateway::Meters* meters_ = nullptr;
  const uint64_t started_us_;
};

}  // namespace millrace::node
