// The light client of the store's benchmarks: keep-alive GETs over one thread's epoll, so that the server is
// the bottleneck and not the client.
//
//   http_load [--tls] 127.0.0.1 9400 /bucket/key CONNECTIONS SECONDS
//
// Prints one line of JSON: requests, bytes, seconds, client CPU, and how long the slowest response took.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kMostHead = 1024;

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

struct Connection {
  int socket = -1;
  uint64_t left = 0;  // of the body; meaningful once the head is in
  bool in_body = false;
  std::string head;
  double asked = 0;
  SSL* tls = nullptr;
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

int connect_to(const char* host, const char* port) {
  const int made = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  inet_pton(AF_INET, host, &address.sin_addr);
  if (connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  const int on = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(made, F_SETFL, O_NONBLOCK);
  return made;
}

// The handshake is not what is measured: it is done before the clock starts, on a blocking socket.
void secure(Connection& connection, SSL_CTX* context) {
  fcntl(connection.socket, F_SETFL, 0);
  connection.tls = SSL_new(context);
  SSL_set_fd(connection.tls, connection.socket);
  if (SSL_connect(connection.tls) != 1) fail("TLS handshake");
  fcntl(connection.socket, F_SETFL, O_NONBLOCK);
}

// Bodies are thrown away in the kernel: copying them would make the client the slower side.
ssize_t receive(Connection& connection, char* buffer, size_t capacity) {
  if (connection.tls == nullptr) {
    if (connection.in_body) return recv(connection.socket, nullptr, connection.left, MSG_TRUNC);
    return recv(connection.socket, buffer, std::min(capacity, kMostHead), 0);
  }
  const int got = SSL_read(connection.tls, buffer, static_cast<int>(capacity));
  if (got > 0) return got;
  if (SSL_get_error(connection.tls, got) == SSL_ERROR_WANT_READ) errno = EAGAIN;
  return -1;
}

void ask(Connection& connection, const std::string& request) {
  connection.in_body = false;
  connection.head.clear();
  connection.asked = now();
  if (connection.tls != nullptr) {
    if (SSL_write(connection.tls, request.data(), static_cast<int>(request.size())) <= 0) fail("SSL_write");
    return;
  }
  if (send(connection.socket, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    fail("send");
}

uint64_t content_length(const std::string& head) {
  const char* const at = strcasestr(head.c_str(), "content-length:");
  if (at == nullptr || !head.starts_with("HTTP/1.1 200")) {
    std::fprintf(stderr, "http_load: unexpected answer: %.200s\n", head.c_str());
    std::exit(1);
  }
  return std::strtoull(at + 15, nullptr, 10);
}

struct Totals {
  uint64_t requests = 0;
  uint64_t bytes = 0;
  double slowest = 0;
  std::vector<float> latencies;
};

// Takes what has arrived; true when the response is complete.
bool take(Connection& connection, char* buffer, size_t capacity, Totals& totals) {
  while (true) {
    const ssize_t got = receive(connection, buffer, capacity);
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) fail("recv");
    size_t body = static_cast<size_t>(got);
    if (!connection.in_body) {
      connection.head.append(buffer, static_cast<size_t>(got));
      const size_t end = connection.head.find("\r\n\r\n");
      if (end == std::string::npos) continue;
      body = connection.head.size() - end - 4;
      connection.left = content_length(connection.head);
      connection.in_body = true;
    }
    connection.left -= body;
    totals.bytes += body;
    if (connection.left == 0) {
      const double took = now() - connection.asked;
      totals.slowest = std::max(totals.slowest, took);
      totals.latencies.push_back(static_cast<float>(took));
      ++totals.requests;
      return true;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  SSL_CTX* context = nullptr;
  if (argc > 1 && std::string_view(argv[1]) == "--tls") {
    context = SSL_CTX_new(TLS_client_method());
    ++argv;
    --argc;
  }
  if (argc != 6) {
    std::fprintf(stderr, "usage: http_load [--tls] HOST PORT PATH CONNECTIONS SECONDS\n");
    return 2;
  }
  const std::string request =
      std::string("GET ") + argv[3] + " HTTP/1.1\r\nHost: " + argv[1] + ":" + argv[2] + "\r\n\r\n";
  std::vector<Connection> connections(static_cast<size_t>(std::atoi(argv[4])));
  const int poll = epoll_create1(0);
  for (Connection& connection : connections) {
    connection.socket = connect_to(argv[1], argv[2]);
    if (context != nullptr) secure(connection, context);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &connection;
    epoll_ctl(poll, EPOLL_CTL_ADD, connection.socket, &event);
  }
  std::vector<char> buffer(256 << 10);
  Totals totals;
  totals.latencies.reserve(1 << 22);
  const double begun = now();
  const double until = begun + std::atof(argv[5]);
  for (Connection& connection : connections) ask(connection, request);
  std::vector<epoll_event> events(256);
  double last = begun;
  while (last < until) {
    const int ready = epoll_wait(poll, events.data(), static_cast<int>(events.size()), 1000);
    for (int i = 0; i < ready; ++i) {
      Connection& connection = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      if (take(connection, buffer.data(), buffer.size(), totals)) ask(connection, request);
    }
    last = now();
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::sort(totals.latencies.begin(), totals.latencies.end());
  const auto percentile = [&](double share) {
    if (totals.latencies.empty()) return 0.0;
    return static_cast<double>(
        totals.latencies[static_cast<size_t>(share * static_cast<double>(totals.latencies.size() - 1))]);
  };
  std::printf(
      "{\"requests\": %lu, \"bytes\": %lu, \"seconds\": %.4f, \"client_cpu\": %.4f, \"slowest\": %.6f, "
      "\"p50\": %.6f, \"p99\": %.6f}\n",
      totals.requests, totals.bytes, last - begun,
      static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
          static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
      totals.slowest, percentile(0.5), percentile(0.99));
  return 0;
}
