// Sockets and TLS sessions.
#include "net/wire.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

namespace millrace::net {

namespace {

// sendfile and OpenSSL have no MSG_NOSIGNAL. The signal goes to the thread that writes, so that holding it
// back there and taking it out again keeps it from everyone.
class HoldBrokenPipe {
 public:
  HoldBrokenPipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~HoldBrokenPipe() {
    if (broken_) {
      const timespec at_once{};
      ::sigtimedwait(&pipe_, nullptr, &at_once);
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  void note(int error) { broken_ = broken_ || error == EPIPE; }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool broken_ = false;
};

Error wire_error(int error, std::string_view what) {
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINPROGRESS)
    return make_error(Code::kUnavailable, "{}: no answer in time", what);
  return make_error(Code::kUnavailable, "{}: {}", what, std::generic_category().message(error));
}

void set_timeout(int descriptor, int option, int64_t milliseconds) {
  const timeval time{milliseconds / 1000, (milliseconds % 1000) * 1000};
  ::setsockopt(descriptor, SOL_SOCKET, option, &time, sizeof time);
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
  }
  if (address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
  }
  return false;
}

void tune(int descriptor, const sockaddr* address, const Timeouts& timeouts) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  // BBR paces by a model of the path that loopback does not fit: it is up to six times slower there.
  if (is_loopback(address)) ::setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  set_timeout(descriptor, SO_SNDTIMEO, timeouts.connect_ms);
}

void close_socket(int descriptor, Lifeline* lifeline) {
  if (lifeline != nullptr) lifeline->detach(descriptor);
  ::close(descriptor);
}

Result<int> connect_to(const std::string& host, uint16_t port, const WireOptions& options) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) {
    return make_error(Code::kUnavailable, "the host {} is not known: {}", host, ::gai_strerror(failure))
        .with_hint("check the address, and the network's name service");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> release(found, &::freeaddrinfo);
  int error = ECONNREFUSED;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int descriptor = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
      error = errno;
      continue;
    }
    tune(descriptor, one->ai_addr, options.timeouts);
    if (options.lifeline && !options.lifeline->attach(descriptor)) {
      ::close(descriptor);
      return cut_off();
    }
    if (::connect(descriptor, one->ai_addr, one->ai_addrlen) == 0) return descriptor;
    error = errno;
    close_socket(descriptor, options.lifeline.get());
  }
  Error refused = wire_error(error, fmt::format("connecting to {} port {}", host, port));
  if (error == ECONNREFUSED)
    return std::move(refused).with_hint("is the server running, and is this its port?");
  return refused;
}

// Why a certificate is not believed, in words, with what helps.
Error distrust(int64_t verdict, const std::string& host) {
  constexpr const char* kOwnServer =
      "--ca-file FILE (or MILLRACE_CA_FILE) names the certificate to trust; --insecure-tls trusts any, for a "
      "server of your own";
  switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return make_error(Code::kDenied, "its certificate has expired")
          .with_hint("who runs the server must renew it; is this machine's clock right?");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return make_error(Code::kDenied, "its certificate is not valid yet")
          .with_hint("is this machine's clock right?");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return make_error(Code::kDenied, "its certificate is for another name than {}", host)
          .with_hint("use the name that the certificate is for");
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return make_error(Code::kDenied, "its certificate is self-signed and not trusted")
          .with_hint(kOwnServer);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return make_error(Code::kDenied, "its certificate was signed by an authority that is not trusted here")
          .with_hint(kOwnServer);
    default:
      return make_error(Code::kDenied, "its certificate is not trusted: {}",
                        X509_verify_cert_error_string(verdict))
          .with_hint(kOwnServer);
  }
}

// Failures of a handshake that have one cause each.
std::optional<Error> known_refusal(unsigned long failure) {
  switch (ERR_GET_REASON(failure)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST:
      return make_error(Code::kDenied, "this port does not speak TLS")
          .with_hint(
              "begin the address with http:// instead of https://, or is this another port than meant?");
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
      return make_error(Code::kUnavailable, "the server closed the connection instead of answering in TLS")
          .with_hint("does this port speak TLS? If not, begin the address with http:// instead of https://");
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return make_error(Code::kDenied,
                        "the server and this program have no version or cipher of TLS in common")
          .with_hint("the server must speak TLS 1.2 or newer");
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return make_error(Code::kDenied,
                        "the server wants a certificate of the client, which is not supported here");
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<std::unique_ptr<TlsContext>> TlsContext::make(Verify verify, const std::string& ca_file) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return make_error(Code::kIo, "TLS cannot be set up");
  std::unique_ptr<TlsContext> made(new TlsContext(context, verify));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context, verify == Verify::kPeer ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr) != 1) {
    return make_error(Code::kInvalid, "{} has no certificates that can be read", ca_file)
        .with_hint("it must be a PEM file");
  }
  return made;
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

Result<std::unique_ptr<Wire>> Wire::open(const std::string& host, uint16_t port, const TlsContext* tls,
                                         const WireOptions& options) {
  const int descriptor = MR_TRY(connect_to(host, port, options));
  std::unique_ptr<Wire> wire(new Wire(descriptor, options.lifeline));
  set_timeout(descriptor, SO_SNDTIMEO, options.timeouts.io_ms);
  set_timeout(descriptor, SO_RCVTIMEO, options.timeouts.io_ms);
  if (tls != nullptr) MR_TRY(wire->start_tls(host, *tls).within(fmt::format("TLS with {}", host)));
  return wire;
}

Wire::~Wire() {
  if (tls_ != nullptr) SSL_free(tls_);
  close_socket(descriptor_, lifeline_.get());
}

Status Wire::start_tls(const std::string& host, const TlsContext& context) {
  tls_ = SSL_new(context.get());
  if (tls_ == nullptr || SSL_set_fd(tls_, descriptor_) != 1)
    return make_error(Code::kIo, "no session can be made");
  unsigned char address[16];
  const bool numeric =
      ::inet_pton(AF_INET, host.c_str(), address) == 1 || ::inet_pton(AF_INET6, host.c_str(), address) == 1;
  if (numeric) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_), host.c_str());
  } else {
    SSL_set_tlsext_host_name(tls_, host.c_str());
    SSL_set1_host(tls_, host.c_str());
  }
  HoldBrokenPipe hold;
  ERR_clear_error();
  const int result = SSL_connect(tls_);
  if (result == 1) return {};
  hold.note(errno);
  const int64_t verdict = SSL_get_verify_result(tls_);
  if (context.verify() == Verify::kPeer && verdict != X509_V_OK) {
    return distrust(verdict, host);
  }
  if (const auto known = known_refusal(ERR_peek_last_error())) return known->copy();
  return tls_error(result, "the handshake");
}

Error Wire::tls_error(int result, std::string_view what) {
  const int error = errno;
  const int kind = SSL_get_error(tls_, result);
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return wire_error(EAGAIN, what);
  if (kind == SSL_ERROR_SYSCALL && error != 0) return wire_error(error, what);
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return make_error(Code::kUnavailable, "{}: {}", what, reason != nullptr ? reason : "the peer has closed");
}

Result<size_t> Wire::read_some(std::span<std::byte> into) {
  if (tls_ == nullptr) {
    while (true) {
      const ssize_t got = ::recv(descriptor_, into.data(), into.size(), 0);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return wire_error(errno, "reading");
    }
  }
  HoldBrokenPipe hold;
  ERR_clear_error();
  errno = 0;
  size_t got = 0;
  const int result = SSL_read_ex(tls_, into.data(), into.size(), &got);
  if (result == 1) return got;
  if (SSL_get_error(tls_, result) == SSL_ERROR_ZERO_RETURN) return size_t{0};
  hold.note(errno);
  return tls_error(result, "reading");
}

Status Wire::write_all(std::string_view first, std::string_view second) {
  if (tls_ != nullptr) {
    MR_TRY(write_tls(first));
    return write_tls(second);
  }
  while (!first.empty() || !second.empty()) {
    iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                      {const_cast<char*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return wire_error(errno, "sending");
    const size_t of_first = std::min(static_cast<size_t>(sent), first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(static_cast<size_t>(sent) - of_first);
  }
  return {};
}

Status Wire::write_tls(std::string_view bytes) {
  HoldBrokenPipe hold;
  while (!bytes.empty()) {
    ERR_clear_error();
    errno = 0;
    size_t sent = 0;
    const int result = SSL_write_ex(tls_, bytes.data(), bytes.size(), &sent);
    if (result != 1) {
      hold.note(errno);
      return tls_error(result, "sending");
    }
    bytes.remove_prefix(sent);
  }
  return {};
}

Status Wire::send_file(const File& file, uint64_t offset, uint64_t size) {
  if (tls_ != nullptr) return send_by_copy(file, offset, size);
  HoldBrokenPipe hold;
  auto at = static_cast<off_t>(offset);
  while (size > 0) {
    const ssize_t sent = ::sendfile(descriptor_, file.descriptor(), &at, std::min<uint64_t>(size, 1 << 30));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      hold.note(errno);
      return wire_error(errno, "sending");
    }
    if (sent == 0) return make_error(Code::kTruncated, "{} became shorter while it was sent", file.name());
    size -= static_cast<uint64_t>(sent);
  }
  return {};
}

Status Wire::send_by_copy(const File& file, uint64_t offset, uint64_t size) {
  constexpr size_t kStep = 256 << 10;
  std::vector<std::byte> buffer(std::min<uint64_t>(size, kStep));
  while (size > 0) {
    const size_t most = std::min<uint64_t>(size, buffer.size());
    MR_TRY(file.read_exactly(offset, {buffer.data(), most}));
    MR_TRY(write_tls({reinterpret_cast<const char*>(buffer.data()), most}));
    offset += most;
    size -= most;
  }
  return {};
}

bool Wire::is_stale() const {
  char byte = 0;
  const ssize_t got = ::recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  // TLS 1.3 servers send session tickets after the handshake: those are not a reason to drop the wire.
  if (got > 0) return tls_ == nullptr;
  return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

}  // namespace millrace::net
