// EtcdRegistry: the registry of a cluster of machines, kept by etcd (3.4 or newer) through its JSON gateway.
//
// Reads are linearizable. Renewals and watches have connections of their own, so that a large list cannot
// make a lease end. A watch is a thread; it resumes behind the last change that it was told, at another
// member if need be. Where etcd has forgotten that revision (compaction), or where nothing could be told for
// another reason, `changed` is called once. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/etcd_caller.h"
#include "cluster/registry.h"
#include "net/client_tls.h"

namespace millrace::cluster {

struct EtcdOptions {
  std::string ca_file;  // empty: the system's authorities
  net::Verify verify = net::Verify::kPeer;
};

class EtcdRegistry : public Registry {
 public:
  // Calls nobody yet: etcd may be started later.
  static Result<std::unique_ptr<EtcdRegistry>> open(const std::string& address, const EtcdOptions& options);

  Result<std::optional<Entry>> get(const std::string& name) override;
  Result<std::vector<Entry>> list(const std::string& prefix) override;
  Result<std::optional<uint64_t>> swap(const std::string& name, uint64_t expected, const std::string& value,
                                       LeaseId lease) override;
  Result<bool> remove(const std::string& name, uint64_t expected) override;
  // etcd counts whole seconds and has a shortest lease of its own (2 s): the ttl is rounded up.
  Result<LeaseId> grant(std::chrono::milliseconds ttl) override;
  Result<bool> renew(LeaseId lease) override;
  Status revoke(LeaseId lease) override;
  std::unique_ptr<Watch> watch(const std::string& prefix, std::function<void()> changed) override;

 private:
  class EtcdWatch;
  EtcdRegistry(EtcdAddress address, EtcdOptions options, std::unique_ptr<EtcdCaller> caller,
               std::unique_ptr<EtcdCaller> renewals)
      : address_(std::move(address)),
        options_(std::move(options)),
        caller_(std::move(caller)),
        renewals_(std::move(renewals)) {}
  std::string key(const std::string& name) const { return address_.prefix + name; }
  // Does `then` if the entry's revision is the expected one. Nothing: it is not.
  Result<std::optional<uint64_t>> transact(const std::string& name, uint64_t expected,
                                           const std::string& then);

  const EtcdAddress address_;
  const EtcdOptions options_;
  const std::unique_ptr<EtcdCaller> caller_;
  const std::unique_ptr<EtcdCaller> renewals_;
};

}  // namespace millrace::cluster
