// Registry: what the nodes of a cluster agree on. Small named values, each changed by compare-and-swap.
//
// Every change has a revision, higher than all before it. A call sees every change that was acknowledged
// before the call began. Entries written under a lease vanish when the lease is not renewed in time; that is
// how the death of a process is noticed. docs/formats/registry.md says which names there are.
//
// Calls block and belong on threads that may wait. Any thread. kUnavailable means that the registry could
// not be reached. Of a change that failed so nobody knows whether it happened: whoever needs to know reads
// the entry again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::cluster {

// A name becomes the name of a file. etcd takes requests of up to 1.5 MiB.
inline constexpr size_t kMostNameBytes = 200;
inline constexpr size_t kMostValueBytes = 1'250'000;

enum class LeaseId : uint64_t { kNone = 0 };
inline constexpr std::chrono::milliseconds kShortestLease{100};
inline constexpr std::chrono::milliseconds kLongestLease = std::chrono::hours(24);

// What swap() says under a lease that is over.
inline constexpr Reason kLeaseEnded{Code::kNotFound, "lease ended"};

struct Entry {
  std::string name;
  std::string value;
  uint64_t revision = 0;
  bool operator==(const Entry&) const = default;
};

// Ends its watching when destroyed, and waits for a call under way. Not to be destroyed by that call.
class Watch {
 public:
  virtual ~Watch() = default;
};

class Registry {
 public:
  virtual ~Registry() = default;

  virtual Result<std::optional<Entry>> get(const std::string& name) = 0;
  // In the order of the names' bytes, all as of one revision. An empty prefix means everything.
  virtual Result<std::vector<Entry>> list(const std::string& prefix) = 0;
  // Writes if the entry's revision is still `expected` (0: there must be no entry) and gives the new
  // revision. Nothing: somebody was faster. The entry then belongs to this lease, or to none.
  virtual Result<std::optional<uint64_t>> swap(const std::string& name, uint64_t expected,
                                               const std::string& value, LeaseId lease = LeaseId::kNone) = 0;
  // False: the revision is another one, or there is no entry.
  virtual Result<bool> remove(const std::string& name, uint64_t expected) = 0;

  // A lease ends when it was not renewed for `ttl`: never earlier, and soon after.
  virtual Result<LeaseId> grant(std::chrono::milliseconds ttl) = 0;
  virtual Result<bool> renew(LeaseId lease) = 0;  // false: it has ended
  virtual Status revoke(LeaseId lease) = 0;       // ends it now, if it has not ended yet

  // Calls `changed` after any change under the prefix, from any thread and perhaps without a reason, until
  // the Watch is destroyed. It must return quickly. After a cut the watch resumes by itself and misses
  // nothing.
  virtual std::unique_ptr<Watch> watch(const std::string& prefix, std::function<void()> changed) = 0;
};

// Names are made of A-Z a-z 0-9 - . _ ~ and "/".
Status check_name(std::string_view name);
Status check_prefix(std::string_view prefix);
Status check_value(std::string_view name, std::string_view value);
Status check_ttl(std::chrono::milliseconds ttl);

}  // namespace millrace::cluster
