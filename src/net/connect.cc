// Opens connections: tries every address of a name, then TLS.
#include "net/connect.h"

#include <sys/socket.h>

#include <optional>
#include <vector>

#include "base/clock.h"

namespace millrace::net {

uint64_t patience_us(int64_t ms) {
  return ms <= 0 ? Stream::kForever : static_cast<uint64_t>(ms) * 1000;
}

namespace {

Task<Result<std::vector<SocketAddress>>> find_addresses(const HostAndPort& name, const Timeouts& timeouts,
                                                        const Waiting& waiting) {
  if (const auto literal = parse_address(name.host, name.port))
    co_return std::vector<SocketAddress>{*literal};
  if (waiting.loop == nullptr) co_return resolve(name);
  const uint64_t patience = patience_us(timeouts.connect_ms);
  const uint64_t until = patience == Stream::kForever ? patience : steady_us() + patience;
  Cancellation limit(*waiting.loop, until, waiting.scope);
  auto found = co_await waiting.resolver->resolve(*waiting.loop, name, &limit);
  co_return std::move(found).within("looking up " + name.host);
}

std::unique_ptr<Stream> make_stream(int family, const Waiting& waiting) {
  const int kind = SOCK_STREAM | SOCK_CLOEXEC | (waiting.loop != nullptr ? SOCK_NONBLOCK : 0);
  const int socket = ::socket(family, kind, 0);
  if (socket < 0) return nullptr;
  if (waiting.loop == nullptr) return std::make_unique<Stream>(socket, waiting.lifeline);
  auto stream = std::make_unique<Stream>(*waiting.loop, socket);
  stream->attach(waiting.scope);
  return stream;
}

}  // namespace

Task<Result<std::unique_ptr<Stream>>> connect_to(HostAndPort name, std::shared_ptr<const ClientTls> tls,
                                                 Timeouts timeouts, Waiting waiting) {
  auto addresses = co_await find_addresses(name, timeouts, waiting);
  if (!addresses) co_return addresses.take_error();
  std::optional<Error> failure;
  for (const SocketAddress& address : *addresses) {
    std::unique_ptr<Stream> stream = make_stream(address.bytes.ss_family, waiting);
    if (!stream) {
      failure = make_system_error(errno, "making a socket");
      continue;
    }
    stream->set_write_patience(patience_us(timeouts.connect_ms));
    auto connected = co_await stream->connect(address);
    if (!connected && connected.error().code() == Code::kCancelled) co_return connected.take_error();
    if (!connected) {
      failure = connected.take_error().within(fmt::format("connecting to {} port {}", name.host, name.port));
      continue;
    }
    stream->set_write_patience(patience_us(timeouts.io_ms));
    stream->set_read_patience(patience_us(timeouts.io_ms));
    if (tls) {
      auto session = std::make_unique<TlsSession>(tls, name.host);
      auto secured = co_await stream->handshake(std::move(session));
      if (!secured) co_return secured.take_error().within("TLS with " + name.host);
    }
    co_return stream;
  }
  if (!failure) co_return make_error(Code::kUnavailable, "the host {} has no address", name.host);
  if (failure->code() != Code::kUnavailable) co_return std::move(*failure);
  co_return Error(kNotConnected, failure->message()).with_hint(failure->hint());
}

}  // namespace millrace::net
