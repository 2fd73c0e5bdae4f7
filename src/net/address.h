// SocketAddress: an address with a port, in the kernel's form. Resolving names: here, or on a thread of a
// Resolver.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/workers.h"
#include "net/cancellation.h"
#include "net/loop.h"
#include "net/task.h"

namespace millrace::net {

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  static SocketAddress of_peer(int socket);
  static SocketAddress of_own(int socket);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  bool is_loopback() const;
  std::string text() const;  // without the port; empty where it is of neither family
  uint16_t port() const;
};

// Of "127.0.0.1" or "::1"; nothing where the text is a name.
std::optional<SocketAddress> parse_address(const std::string& host, uint16_t port);

struct HostAndPort {
  std::string host;
  uint16_t port = 0;
};

// All addresses of a name, in the name service's order. Waits for the name service.
Result<std::vector<SocketAddress>> resolve(const HostAndPort& name);

// Resolves on threads of its own, so that a loop never waits for the name service. Thread-safe; outlives the
// coroutines that use it. Going away, it waits for the lookups under way.
class Resolver {
 public:
  explicit Resolver(unsigned threads = 2);
  Task<Result<std::vector<SocketAddress>>> resolve(Loop& loop, HostAndPort name, Cancellation* scope);

 private:
  Workers workers_;
};

}  // namespace millrace::net
