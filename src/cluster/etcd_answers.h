// What etcd says through its JSON gateway: answers and failures, taken apart.
//
// The bytes come from outside, so everything that is not as it must be is kCorrupt. 64-bit numbers come as
// strings, keys and values in base64, and what is zero or empty is left out. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/registry.h"

namespace millrace::cluster {

// The token is over, or was made before users were changed: authenticating again helps.
inline constexpr Reason kTokenRefused{Code::kDenied, "etcd refused the token"};

struct EtcdRange {
  uint64_t revision = 0;       // of the whole store
  std::vector<Entry> entries;  // names are whole keys
};
Result<EtcdRange> parse_range(std::string_view body);

struct EtcdTransaction {
  bool succeeded = false;
  uint64_t revision = 0;
};
Result<EtcdTransaction> parse_transaction(std::string_view body);

Result<LeaseId> parse_grant(std::string_view body);
Result<bool> parse_renewal(std::string_view body);  // false: the lease has ended
Result<std::string> parse_token(std::string_view body);

// One line of a watch.
struct EtcdNotice {
  bool created = false;         // the watch has begun
  bool cancelled = false;       // no line follows
  uint64_t compacted = 0;       // cancelled: changes up to this revision are forgotten
  uint64_t store_revision = 0;  // of the whole store
  uint64_t seen = 0;            // all changes up to this revision were told; 0: nothing new
  bool changed = false;
};
Result<EtcdNotice> parse_notice(std::string_view line);

// The failure that an answer with another status than 200 means; a lost leader and the like are kUnavailable.
Error parse_failure(int status, std::string_view body);

}  // namespace millrace::cluster
