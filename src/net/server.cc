// Accepts connections, serves their requests, drains and stops.
#include "net/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/number.h"

namespace millrace::net {

namespace {
constexpr int kBacklog = 4096;
constexpr uint64_t kLingerBytes = 256 << 20;
constexpr uint64_t kLingerUs = 5'000'000;
constexpr std::chrono::milliseconds kLookEvery{5};  // while it drains

std::optional<SocketAddress> listening_address(const std::string& host, uint16_t port) {
  return parse_address(host == "localhost" ? "127.0.0.1" : host, port);
}
}  // namespace

// One loop, its thread, and the connections that live there.
struct Server::Core {
  explicit Core(uint64_t busy_wait_us) : loop(busy_wait_us) {}
  Loop loop;
  std::thread thread;
};

bool ListenAddress::is_loopback() const {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

std::string ListenAddress::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return make_error(Code::kInvalid, "cannot listen on \"{}\": {}", text, why)
        .with_hint("an address such as 127.0.0.1:9400, [::1]:9400 or 0.0.0.0:9400");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("there is no port");
  ListenAddress address;
  address.host = text.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (address.host.empty() || address.host == "*") address.host = "0.0.0.0";
  const std::string_view port = text.substr(colon + 1);
  const auto number = parse_number<uint16_t>(port);
  if (!number) return bad("the port is not a number up to 65535");
  address.port = *number;
  if (!listening_address(address.host, address.port)) return bad("the host is not an address");
  return address;
}

Server::Server(ServerOptions options, Handler& handler, Log& log)
    : options_(std::move(options)), handler_(handler), log_(log) {}

Result<std::unique_ptr<Server>> Server::open(ServerOptions options, Handler& handler, Log& log) {
  std::unique_ptr<Server> server(new Server(std::move(options), handler, log));
  const unsigned wanted = server->options_.threads;
  const unsigned threads = std::clamp(wanted == 0 ? std::thread::hardware_concurrency() : wanted, 1U, 256U);
  for (unsigned i = 0; i < threads; ++i)
    server->cores_.push_back(std::make_unique<Core>(server->options_.busy_wait_us));
  MR_TRY(server->listen());
  return server;
}

void Server::run() {
  listening_.notify = [this] { accept_all(); };
  const auto watched = cores_[0]->loop.watch(listening_);
  MR_ASSERT(watched.has_value());
  cores_[0]->loop.each_second([this] { accept_all(); });
  for (const auto& core : cores_) {
    core->thread = std::thread([&loop = core->loop] { loop.run(); });
  }
}

Status Server::listen() {
  const auto address = listening_address(options_.listen.host, options_.listen.port);
  const auto failed = [&](int error) {
    return make_error(error == EADDRINUSE ? Code::kExists : Code::kIo, "cannot listen on {}: {}",
                      options_.listen.text(), std::strerror(error))
        .with_hint("is another server running there? choose another with --listen");
  };
  if (!address) return failed(EINVAL);
  const int made = ::socket(address->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) return failed(errno);
  listening_.descriptor = made;
  const int on = 1;
  ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(made, address->get(), address->size) != 0) return failed(errno);
  if (::listen(made, kBacklog) != 0) return failed(errno);
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  port_ = SocketAddress::of_own(made).port();
  return {};
}

// Also called once a second: where descriptors had run out, there may be some again, and no event tells.
void Server::accept_all() {
  while (true) {
    const int socket = ::accept4(listening_.descriptor, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (socket < 0 && (errno == EMFILE || errno == ENFILE)) {
      if (!refuse_one()) return;
      continue;
    }
    if (socket < 0) return;
    Core& core = *cores_[next_core_++ % cores_.size()];
    core.loop.post([this, &core, socket] { core.loop.spawn(serve(core, socket)); });
  }
}

bool Server::refuse_one() {
  if (spare_ < 0) spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (spare_ < 0) return false;
  ::close(std::exchange(spare_, -1));
  const int socket = ::accept4(listening_.descriptor, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (socket >= 0) {
    constexpr std::string_view kRefusal =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: "
        "0\r\n\r\n";
    // To those who speak TLS a closed connection says as much. Whether it arrives changes nothing here.
    if (options_.certificates == nullptr)
      static_cast<void>(::send(socket, kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL));
    ::close(socket);
  }
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return socket >= 0;
}

Task<void> Server::serve(Core& core, int socket) {
  const unsigned count = ++connections_;
  {
    std::shared_ptr<const ServerTls> tls;
    if (options_.certificates != nullptr) tls = options_.certificates->current();
    Connection connection(core.loop, socket, options_.limits, std::move(tls));
    const auto started = connection.stream_.start();
    try {
      if (count > options_.max_connections) {
        const Error full =
            make_error(Code::kUnavailable, "more than {} connections", options_.max_connections);
        connection.close_after_response();
        const auto refused = co_await refuse(connection, full);
        static_cast<void>(refused);
      } else if (started) {
        co_await serve_requests(connection);
      }
    } catch (const std::exception& failure) {
      log_.warn("a request ended by an exception", "what", failure.what(), "peer", connection.peer());
    }
  }
  --connections_;
}

Task<void> Server::serve_requests(Connection& connection) {
  const auto secured = co_await connection.handshake();
  if (!secured) co_return;
  while (true) {
    auto arrived = co_await connection.read_request();
    if (!arrived) {
      if (arrived.error().code() == Code::kUnavailable) co_return;
      connection.close_after_response();
      const auto refused = co_await refuse(connection, arrived.error());
      if (refused) co_await linger(connection);
      co_return;
    }
    if (!*arrived) co_return;
    auto served = co_await serve_counted(connection);
    if (!served) co_return;
    auto ended = co_await connection.end_request();
    if (!ended) co_return;
    if (!connection.request().keep_alive) {
      co_await linger(connection);
      co_return;
    }
  }
}

Task<Status> Server::serve_counted(Connection& connection) {
  // Counts down however the request ends: a request that throws must not make the server wait for it when it
  // stops.
  struct Count {
    explicit Count(std::atomic<unsigned>& counter) : counted(counter) { ++counted; }
    ~Count() { --counted; }
    std::atomic<unsigned>& counted;
  };
  if (!handler_.outlasts_drain(connection.request())) {
    const Count count(under_way_);
    co_return co_await serve_one(connection, Refused::kUsual);
  }
  const Count count(lasting_);
  auto served = co_await serve_one(connection, Refused::kAll);
  lasting_until_us_.store(coarse_us(), std::memory_order_relaxed);
  co_return served;
}

Task<Status> Server::serve_one(Connection& connection, Refused refused_from) {
  if (refused_.load() >= refused_from) {
    connection.close_after_response();
    const Error stopping = make_error(Code::kUnavailable, "the server is stopping");
    co_return co_await refuse(connection, stopping);
  }
  co_return co_await handler_.handle(connection);
}

Task<Status> Server::refuse(Connection& connection, const Error& error) {
  int status = 400;
  if (error.code() == Code::kTooLarge) status = 431;
  if (error.code() == Code::kUnsupported) status = error.message().starts_with("HTTP/") ? 505 : 501;
  if (error.code() == Code::kUnavailable) status = 503;
  HeadBuilder& head = connection.start(status);
  head.add("Content-Type", "text/plain; charset=utf-8");
  if (status == 503) head.add("Retry-After", "2");
  const std::string text = error.message() + "\n";
  co_return co_await connection.send(text);
}

// A close with unread bytes in the socket is a reset, which may overtake the response on its way to the
// client. So: say that nothing more will come, and read what the client still sends for a moment.
Task<void> Server::linger(Connection& connection) {
  co_await connection.stream_.end_writing();
  const uint64_t until = coarse_us() + kLingerUs;
  connection.stream_.set_deadline(until);
  std::vector<std::byte> scratch(64 << 10);
  uint64_t total = 0;
  while (total < kLingerBytes && coarse_us() < until) {
    auto got = co_await connection.stream_.read_some(scratch);
    if (!got || *got == 0) co_return;
    total += *got;
  }
}

unsigned Server::drain(Refused refused, uint64_t limit_ms) {
  refused_ = refused;
  const auto left = [&] { return under_way_ + (refused == Refused::kAll ? lasting_.load() : 0); };
  const uint64_t until = steady_us() + limit_ms * 1000;
  while (left() > 0 && steady_us() < until) std::this_thread::sleep_for(kLookEvery);
  return left();
}

void Server::wait_for_quiet(uint64_t quiet_ms, uint64_t limit_ms) const {
  const uint64_t began = steady_us();
  const auto is_quiet = [&] {
    return lasting_ == 0 && steady_us() >= std::max(began, lasting_until_us_.load()) + quiet_ms * 1000;
  };
  while (!is_quiet() && steady_us() < began + limit_ms * 1000) std::this_thread::sleep_for(kLookEvery);
}

void Server::stop() {
  if (stopped_) return;
  stopped_ = true;
  for (const auto& core : cores_) core->loop.stop();
  for (const auto& core : cores_) {
    if (core->thread.joinable()) core->thread.join();
  }
}

Server::~Server() {
  stop();
  if (listening_.descriptor >= 0) ::close(listening_.descriptor);
  if (spare_ >= 0) ::close(spare_);
}

}  // namespace millrace::net
