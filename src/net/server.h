// Server: accepts connections and runs a handler for each request. Knows nothing of what is served.
//
// One loop and thread per core; a connection lives on one of them, chosen in turn, and ends when its client
// is idle or too slow. drain() lets what is under way finish, within a limit; meanwhile new requests are
// answered 503, at first but for those that others need to get along without this server. The server outlives
// its connections; its handler outlives it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "net/connection.h"
#include "net/task.h"
#include "net/tls.h"

namespace millrace::net {

class Handler {
 public:
  virtual ~Handler() = default;
  // Sends exactly one response, or returns an error, which ends the connection.
  virtual Task<Status> handle(Connection& connection) = 0;
  // It is served while the server drains, and is not waited for.
  virtual bool outlasts_drain(const RequestHead&) const { return false; }
};

struct ListenAddress {
  std::string host;  // an address, or "localhost"
  uint16_t port = 0;
  bool is_loopback() const;
  std::string text() const;
};
// "127.0.0.1:9400", "[::1]:9400", ":9400" (all interfaces), "localhost:0" (any free port).
Result<ListenAddress> parse_listen_address(std::string_view text);

struct ServerOptions {
  ListenAddress listen;
  unsigned threads = 0;  // 0: one per core
  unsigned max_connections = 10'000;
  uint64_t busy_wait_us = 0;
  ConnectionLimits limits;
  CertificateFiles* certificates = nullptr;  // nothing: plain HTTP
};

class Server {
 public:
  // Listens, but answers nobody before run().
  static Result<std::unique_ptr<Server>> open(ServerOptions options, Handler& handler, Log& log);
  void run();  // starts the threads and returns
  ~Server();

  uint16_t port() const { return port_; }
  unsigned connections() const { return connections_.load(std::memory_order_relaxed); }
  unsigned requests_under_way() const {
    return under_way_.load(std::memory_order_relaxed) + lasting_.load(std::memory_order_relaxed);
  }
  bool is_draining() const { return refused_.load(std::memory_order_relaxed) != Refused::kNone; }

  // New requests get 503 from now on, or those alone that do not outlast a drain. Returns when none of them
  // is under way or the limit has passed: how many are left.
  enum class Refused : uint8_t { kNone, kUsual, kAll };
  unsigned drain(Refused refused, uint64_t limit_ms);
  // Waits until no request that outlasts a drain was there for so long, within the limit.
  void wait_for_quiet(uint64_t quiet_ms, uint64_t limit_ms) const;
  // Ends all connections and joins the threads.
  void stop();

 private:
  struct Core;
  Server(ServerOptions options, Handler& handler, Log& log);
  Status listen();
  void accept_all();
  // Where no descriptor is left: takes one connection with the spare one and refuses it. False: none was
  // there.
  bool refuse_one();
  Task<void> serve(Core& core, int socket);
  Task<void> serve_requests(Connection& connection);
  Task<Status> serve_counted(Connection& connection);
  // Refused where the drain has come to this.
  Task<Status> serve_one(Connection& connection, Refused refused_from);
  static Task<Status> refuse(Connection& connection, const Error& error);
  static Task<void> linger(Connection& connection);

  const ServerOptions options_;
  Handler& handler_;
  Log& log_;
  uint16_t port_ = 0;
  std::vector<std::unique_ptr<Core>> cores_;
  Watch listening_;
  int spare_ = -1;  // a descriptor to accept with when no other is left
  size_t next_core_ = 0;
  std::atomic<unsigned> connections_ = 0;
  std::atomic<unsigned> under_way_ = 0;         // requests that a drain waits for
  std::atomic<unsigned> lasting_ = 0;           // those that outlast it
  std::atomic<uint64_t> lasting_until_us_ = 0;  // when one of these was last under way
  std::atomic<Refused> refused_ = Refused::kNone;
  bool stopped_ = false;
};

}  // namespace millrace::net
