// Gateway: every request's way from path and signature to the operation that serves it.
//
// S3 at the root, the bucket in the path or in the host; plain HTTP is the same without a signature; /-/ is
// administration. Thread-safe: all state is in the services and the call.
#pragma once

#include <memory>
#include <string>

#include "cluster/administration.h"
#include "cluster/call.h"
#include "cluster/host.h"
#include "cluster/keys.h"
#include "cluster/meters.h"
#include "cluster/operation.h"
#include "cluster/shards.h"
#include "net/server.h"

namespace millrace::cluster {

struct GatewayOptions {
  bool insecure = false;  // --insecure: open although it listens beyond loopback
  bool loopback = true;   // listens on loopback only
  bool access_log = false;
  std::vector<std::string> domains;  // before which buckets may stand
  store::NameRule names = store::NameRule::kS3;
};

class Gateway final : public net::Handler {
 public:
  Gateway(Services services, KeyFile& keys, GatewayOptions options);
  void attach(const net::Server& server) { server_ = &server; }

  net::Task<Status> handle(net::Connection& connection) override;

 private:
  net::Task<Status> dispatch(Call& call);
  net::Task<Status> serve_bucket(Call& call, Operation operation);
  net::Task<Status> describe_bucket(Call& call, Operation operation);
  net::Task<Status> serve_object(Call& call, Operation operation);
  net::Task<Status> serve_upload(Call& call, Operation operation);
  Status locate(Call& call) const;
  Status check_host(const Call& call, const HostName& host) const;
  // Of a host that is not known: whether the bucket could be in it rather than in the path, and that would matter.
  bool may_mean_a_bucket_of_the_host(const Call& call) const;
  Result<Caller> authenticate(const Call& call) const;
  Status authorize(const Call& call, Right right) const;
  bool is_open(const KeyRing& ring) const { return ring.empty() && (options_.loopback || options_.insecure); }
  net::Task<Status> create_on_first_use(Call& call);
  void log_access(const Call& call, uint64_t microseconds) const;

  Services services_;
  KeyFile& keys_;
  const GatewayOptions options_;
  const HostNames hosts_;
  const net::Server* server_ = nullptr;
  Meters meters_;
  ShardIndexes indexes_;
  const uint64_t started_us_;
};

}  // namespace millrace::cluster
