// Gateway: every request's way from path and signature to the operation that serves it.
//
// S3 at the root, the bucket in the path or in the host; plain HTTP is the same without a signature; /-/ is
// administration, which the node brings. Thread-safe: all state is in the services and the call.
#pragma once

#include <string>
#include <vector>

#include "gateway/access.h"
#include "gateway/call.h"
#include "gateway/host_name.h"
#include "gateway/meters.h"
#include "net/server.h"

namespace millrace::gateway {

// Serves everything under /-/; rights are its own to judge.
class Administration {
 public:
  virtual ~Administration() = default;
  virtual net::Task<Status> serve(Call& call) = 0;
};

struct GatewayOptions {
  bool insecure = false;  // --insecure: open although it listens beyond loopback
  bool loopback = true;   // listens on loopback only
  bool access_log = false;
  std::vector<std::string> domains;  // before which buckets may stand
};

class Gateway final : public net::Handler {
 public:
  Gateway(Services services, KeySource& keys, Administration& administration, GatewayOptions options);

  net::Task<Status> handle(net::Connection& connection) override;
  // Messages of other nodes: they need this one until it has left the cluster.
  bool outlasts_drain(const net::RequestHead& request) const override;
  const Meters& meters() const { return meters_; }

 private:
  net::Task<Status> dispatch(Call& call);
  Status locate(Call& call) const;
  Status check_host(const Call& call, const HostName& host) const;
  // Of a host that is not known: whether the bucket could be in it rather than in the path, and that would
  // matter.
  bool may_mean_a_bucket_of_the_host(const Call& call) const;
  Result<Caller> authenticate(const Call& call) const;
  Status authorize(const Call& call, Right right) const;
  bool is_open(const KeyRing& ring) const { return ring.empty() && (options_.loopback || options_.insecure); }
  // The bucket that the call names, where it must be there or may be made.
  net::Task<Status> provide_bucket(Call& call);
  void log_access(const Call& call, uint64_t microseconds) const;
  void note_audit(const Call& call, const Status& done, uint64_t microseconds) const;

  Services services_;
  KeySource& keys_;
  Administration& administration_;
  const GatewayOptions options_;
  const HostNames hosts_;
  Meters meters_;
};

}  // namespace millrace::gateway
