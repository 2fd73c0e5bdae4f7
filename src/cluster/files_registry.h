// FilesRegistry: the registry of one machine. A directory that any number of processes share.
//
//   format           the version of this layout
//   lock, turns/     one call after the other (cluster/turn.h)
//   revision         the highest revision given so far; raised, durably, before each change
//   entries/NAME=    a line with revision and lease, then the value; "/" in the name is "%" here
//   leases/ID        boot id, end (CLOCK_BOOTTIME) and length of a lease
//
// Files are replaced whole and durably, so a process may be killed and a machine lose power at any moment. A
// lease ends with the boot that it was granted in. Whoever calls removes what belongs to ended leases, and so
// does every watch, so that others learn of it in time. A process that is stopped in the middle of a call
// delays the others for some seconds. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "cluster/registry.h"
#include "cluster/turn.h"

namespace millrace::cluster {

class FilesRegistry : public Registry {
 public:
  // Makes the directory where there is none.
  static Result<std::unique_ptr<FilesRegistry>> open(const std::string& directory);

  Result<std::optional<Entry>> get(const std::string& name) override;
  Result<std::vector<Entry>> list(const std::string& prefix) override;
  Result<std::optional<uint64_t>> swap(const std::string& name, uint64_t expected, const std::string& value,
                                       LeaseId lease) override;
  Result<bool> remove(const std::string& name, uint64_t expected) override;
  Result<LeaseId> grant(std::chrono::milliseconds ttl) override;
  Result<bool> renew(LeaseId lease) override;
  Status revoke(LeaseId lease) override;
  // Lives as long as the Watch wants; the registry may go before it.
  std::unique_ptr<Watch> watch(const std::string& prefix, std::function<void()> changed) override;

 private:
  struct Stored {
    uint64_t revision = 0;
    LeaseId lease = LeaseId::kNone;
    std::string value;
  };
  class FilesWatch;

  FilesRegistry(std::string directory, std::string boot_id)
      : directory_(std::move(directory)), boot_id_(std::move(boot_id)) {}

  Status prepare();
  // Waits for the lock, removes what ended leases left, and then nobody else is at the files.
  Result<Turn> take_turn();
  Result<Turn> take_lock() const;
  Result<uint64_t> read_revision() const;
  Result<uint64_t> raise_revision(const Turn& turn);
  std::string entry_path(const std::string& name) const;
  std::string lease_path(LeaseId lease) const;
  Result<std::optional<Stored>> find_stored(const std::string& name) const;
  Result<std::vector<std::string>> entry_names() const;  // sorted
  Result<std::vector<LeaseId>> overdue_leases() const;
  // Nothing: it is over. Otherwise its length.
  Result<std::optional<std::chrono::nanoseconds>> find_lease(LeaseId lease) const;
  std::string lease_text(std::chrono::nanoseconds ttl) const;
  // Removes the entries of these leases, then the leases.
  Status end_leases(const Turn& turn, const std::vector<LeaseId>& ended);

  const std::string directory_;
  const std::string boot_id_;
};

}  // namespace millrace::cluster
