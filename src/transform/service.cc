// Two threads at one socket: one sends the tar, the caller's reads the answer.
#include "transform/service.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "net/address.h"
#include "net/connect.h"
#include "net/request.h"
#include "net/response.h"
#include "net/url.h"
#include "transform/checked_tar.h"
#include "transform/sandbox.h"

namespace millrace::transform {

namespace {

constexpr size_t kPieceBytes = 256 << 10;
constexpr int64_t kConnectMs = 10'000;

Status set_patience(int socket, int64_t ms) {
  const timeval patience{ms / 1000, (ms % 1000) * 1000};
  const bool is_set = ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
                      ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0;
  return is_set ? Status() : Status(make_system_error(errno, "a socket's patience"));
}

Result<File> connect(const net::Url& url) {
  const auto addresses = MR_TRY(net::resolve({url.host, net::port_of(url)}));
  Error failure = make_error(Code::kUnavailable, "{} has no address", url.host);
  for (const net::SocketAddress& address : addresses) {
    File socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), url.host);
    if (!socket.is_open()) return make_system_error(errno, "making a socket");
    MR_TRY(set_patience(socket.descriptor(), kConnectMs));
    if (::connect(socket.descriptor(), address.get(), address.size) == 0) return socket;
    failure = make_error(Code::kUnavailable, "connecting to {}: {}", net::host_header(url),
                         make_system_error(errno, "").message());
  }
  return failure;
}

Status send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return make_system_error(errno, "sending");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

std::string head_text(const net::Url& url, const Registered& transform, const Input& input) {
  const std::string query = url.query.empty() ? "" : "?" + url.query;
  std::string head = fmt::format("POST {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: millrace\r\n", url.path,
                                 query, net::host_header(url));
  head += "Content-Type: application/x-tar\r\nConnection: close\r\n";
  head += fmt::format("x-millrace-object: {}\r\n", net::percent_encode(input.object, net::Encode::kPath));
  head += fmt::format("x-millrace-transform: {} {}\r\n", transform.name, transform.tag());
  head += input.size ? fmt::format("Content-Length: {}\r\n\r\n", *input.size)
                     : std::string("Transfer-Encoding: chunked\r\n\r\n");
  return head;
}

// A service that answers early and reads no more is not a failure of sending. The source's failures are.
Status send_tar(int socket, const Input& input) {
  std::vector<std::byte> buffer(kPieceBytes);
  uint64_t sent = 0;
  while (true) {
    const size_t got = MR_TRY(input.tar.read_some(buffer));
    sent += got;
    const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), got);
    if (input.size && got == 0 && sent != *input.size)
      return make_error(Code::kTruncated, "{} ends at byte {} of {}", input.object, sent, *input.size);
    if (!input.size && !send_all(socket, fmt::format("{:x}\r\n", got))) return {};
    if (!send_all(socket, bytes)) return {};
    if (!input.size && !send_all(socket, "\r\n")) return {};
    if (got == 0) return {};
  }
}

Status receive_tar(net::Response& response, const Limits& limits, CheckedTar& out) {
  if (response.status() != 200) {
    const auto said = response.read_all(net::kMaxErrorBody);
    constexpr size_t kMostSaid = 600;
    return make_error(kProgramFailed, "it answered {}: {}", response.status(),
                      said ? printable(trim(*said, " \t\r\n"), kMostSaid) : "");
  }
  std::vector<std::byte> buffer(kPieceBytes);
  while (true) {
    const size_t got = MR_TRY(response.read_some(buffer));
    if (got == 0) return out.finish();
    if (response.received() > limits.output)
      return make_error(kProgramFailed, "it sent more than {} bytes", limits.output);
    MR_TRY(out.write({reinterpret_cast<const char*>(buffer.data()), got}));
  }
}

// Reads the answer over a stream of its own: streams belong to one thread.
Status receive(int socket, const Description& description, CheckedTar& out) {
  const int twin = ::dup(socket);
  if (twin < 0) return make_system_error(errno, "a socket's twin");
  net::Lease lease;
  lease.stream = std::make_unique<net::Stream>(twin, nullptr);
  MR_TRY(lease.stream->start());
  const auto ms = static_cast<int64_t>(description.limits.seconds) * 1000;
  auto answer = net::AsyncResponse::receive(std::move(lease), "POST", {kConnectMs, ms, ms},
                                            net::AsyncResponse::Keep::kNever)
                    .run_now();
  if (!answer) return answer.take_error();
  net::Response response(answer.take());
  return receive_tar(response, description.limits, out);
}

}  // namespace

Result<Outcome> ServiceRunner::run(const Registered& transform, const Input& input, tar::ByteSink& out) {
  const Description& description = transform.description;
  const net::Url url = MR_TRY(net::parse_url(description.url));
  const auto within = [&](Error error) {
    return std::move(error).within(fmt::format("the service {}", net::host_header(url)));
  };
  auto socket = connect(url);
  if (!socket) return within(socket.take_error());
  MR_TRY(set_patience(socket->descriptor(), static_cast<int64_t>(description.limits.seconds) * 1000));
  CheckedTar checked(net::host_header(url), out);
  Status sent;
  std::jthread sender([&] {
    if (send_all(socket->descriptor(), head_text(url, transform, input)))
      sent = send_tar(socket->descriptor(), input);
    if (!sent) ::shutdown(socket->descriptor(), SHUT_RDWR);
  });
  Status received = receive(socket->descriptor(), description, checked);
  // Whoever still sends is not waited for.
  ::shutdown(socket->descriptor(), SHUT_RDWR);
  sender.join();
  if (!sent) return sent.error().copy();
  if (!received) return within(received.take_error());
  return Outcome{};
}

}  // namespace millrace::transform
