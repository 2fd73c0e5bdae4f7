// HostNames: what the host of a request says: this node, or a bucket of it. Immutable; any thread.
//
// Where a client puts the bucket into the host (bucket.localhost:9400), the path is the key alone. A host
// that is neither the node's nor a bucket's of a configured domain is foreign: its path may mean either, and
// whoever guesses may remove the bucket that has the name of a key. A name without a dot holds no bucket.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::gateway {

struct HostName {
  enum class Kind {
    kNode,     // an address, localhost, a configured domain, this machine's name; or the request names none
    kBucket,   // BUCKET.DOMAIN
    kShort,    // another name without a dot
    kForeign,  // another name
  };
  Kind kind = Kind::kNode;
  std::string bucket;  // of kBucket

  bool is_known() const { return kind == Kind::kNode || kind == Kind::kBucket; }
};

class HostNames {
 public:
  explicit HostNames(std::vector<std::string> domains);
  // With or without a port.
  HostName find(std::string_view host) const;

 private:
  std::vector<std::string> domains_;  // lower case
  std::string machine_;               // lower case
};

// An error where one of them is not the name of a host.
Status check_domains(const std::vector<std::string>& domains);

}  // namespace millrace::gateway
