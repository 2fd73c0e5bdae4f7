// Parses socket addresses, and resolves host names on threads of its own.
#include "net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "net/pause.h"

namespace millrace::net {

SocketAddress SocketAddress::of_peer(int socket) {
  SocketAddress address;
  address.size = sizeof address.bytes;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address.bytes), &address.size) != 0) return {};
  return address;
}

SocketAddress SocketAddress::of_own(int socket) {
  SocketAddress address;
  address.size = sizeof address.bytes;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.bytes), &address.size) != 0) return {};
  return address;
}

bool SocketAddress::is_loopback() const {
  if (bytes.ss_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in&>(bytes).sin_addr.s_addr) >> 24) == 127;
  if (bytes.ss_family != AF_INET6) return false;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

std::string SocketAddress::text() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (bytes.ss_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(bytes).sin_addr, text, sizeof text);
  if (bytes.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr, text, sizeof text);
  return text;
}

uint16_t SocketAddress::port() const {
  return ntohs(bytes.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bytes).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bytes).sin_port);
}

std::optional<SocketAddress> parse_address(const std::string& host, uint16_t port) {
  SocketAddress made;
  auto& v4 = reinterpret_cast<sockaddr_in&>(made.bytes);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(made.bytes);
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    made.size = sizeof v4;
    return made;
  }
  if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    made.size = sizeof v6;
    return made;
  }
  return std::nullopt;
}

Result<std::vector<SocketAddress>> resolve(const HostAndPort& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(name.host.c_str(), std::to_string(name.port).c_str(), &hints, &found);
  if (failure != 0) {
    return make_error(Code::kUnavailable, "the host {} is not known: {}", name.host, ::gai_strerror(failure))
        .with_hint("check the address, and the network's name service");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> release(found, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    address.size = std::min<socklen_t>(one->ai_addrlen, sizeof address.bytes);
    std::memcpy(&address.bytes, one->ai_addr, address.size);
  }
  return addresses;
}

namespace {

// Between the coroutine, which may go away first, and the thread that looks up.
struct Lookup {
  explicit Lookup(std::shared_ptr<Inbox> of_loop) : inbox(std::move(of_loop)) {}
  const std::shared_ptr<Inbox> inbox;
  Pause* pause = nullptr;  // touched in the loop's thread only; null where nobody waits any more
  std::optional<Result<std::vector<SocketAddress>>> found;
};

struct EndOfInterest {
  const std::shared_ptr<Lookup>& lookup;
  ~EndOfInterest() { lookup->pause = nullptr; }
};

void look_up(const std::shared_ptr<Lookup>& lookup, const HostAndPort& name) {
  lookup->found.emplace(resolve(name));
  lookup->inbox->post([lookup] {
    if (lookup->pause != nullptr) lookup->pause->wake();
  });
}

constexpr size_t kMostLookups = 1024;

}  // namespace

Resolver::Resolver(unsigned threads) : workers_(threads, kMostLookups) {}

Task<Result<std::vector<SocketAddress>>> Resolver::resolve(Loop& loop, HostAndPort name,
                                                           Cancellation* scope) {
  const auto lookup = std::make_shared<Lookup>(loop.inbox());
  Pause pause(loop, Pause::kForever, scope);
  lookup->pause = &pause;
  const EndOfInterest end_of_interest{lookup};
  const bool taken = workers_.submit([lookup, name] { look_up(lookup, name); });
  if (!taken) co_return make_error(Code::kUnavailable, "too many names are being looked up");
  const Pause::End end = co_await pause;
  if (end == Pause::End::kCancelled) co_return scope->error();
  co_return std::move(*lookup->found);
}

}  // namespace millrace::net
