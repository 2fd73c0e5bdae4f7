// NodeAdministration: everything under /-/: health, metrics, status, drives, buckets, the scrubber, and the
// messages of other nodes.
//
// Answers are JSON. Health is for everyone; the rest needs open mode or a key with the right `admin` (metrics
// and status: any key, or a client on this machine). Messages of other nodes need no key: their seal is the
// right to send them.
#pragma once

#include <string_view>

#include "cluster/peer_service.h"
#include "gateway/gateway.h"
#include "net/server.h"
#include "store/local_store.h"

namespace millrace::node {

class NodeAdministration final : public gateway::Administration {
 public:
  // `peers` answers other nodes; null where the node belongs to no cluster.
  explicit NodeAdministration(store::LocalStore& store, cluster::PeerService* peers = nullptr);
  // What it reports on; both come after it, and before the first call.
  void attach(const net::Server& server, const gateway::Meters& meters);

  net::Task<Status> serve(gateway::Call& call) override;

 private:
  net::Task<Status> look(gateway::Call& call, std::string_view what);
  net::Task<Status> change(gateway::Call& call, std::string_view what);
  net::Task<Status> answer_peer(gateway::Call& call);

  store::LocalStore& store_;
  cluster::PeerService* const peers_;
  const net::Server* server_ = nullptr;
  const gateway::Meters* meters_ = nullptr;
  const uint64_t started_us_;
};

}  // namespace millrace::node
