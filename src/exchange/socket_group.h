// A Group over TCP: ranks that are processes of several machines, without a launcher.
//
// Each rank opens a RankListener, the addresses become known to all, and open_socket_group() connects every
// pair. Both sides of a connection prove that they know the group's secret before anything else is read, and
// every message carries its checksum. The bytes themselves are not encrypted, as those of MPI are not.
//
// Messages move while test() is called. One that comes before its receive() waits in memory; when those of a
// peer are kMostWaitingBytes, the peer is not heard until one is received. A peer whose connection breaks
// fails every request that it has to do with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "exchange/group.h"
#include "net/address.h"

namespace millrace::exchange {

inline constexpr uint64_t kMostWaitingBytes = 8 << 20;
inline constexpr uint32_t kMostSocketRanks = 1024;

class RankListener {
 public:
  // At a free port of this address: "10.0.0.3", "::1".
  static Result<RankListener> open(const std::string& host);
  uint16_t port() const { return port_; }
  const File& socket() const { return socket_; }

 private:
  File socket_;
  uint16_t port_ = 0;
};

struct SocketRanks {
  uint32_t rank = 0;
  std::vector<net::HostAndPort> ranks;  // of all, this one included
  std::string secret;                   // of this group alone
  uint64_t timeout_ms = 60'000;         // for all to be connected
};

// All ranks call it at about the same time. kUnavailable names a rank that did not come.
Result<std::unique_ptr<Group>> open_socket_group(const RankListener& listener, const SocketRanks& ranks);

}  // namespace millrace::exchange
