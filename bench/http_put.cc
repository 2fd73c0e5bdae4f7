// The PUT side of the store's benchmarks: a light client, and the plainest durable server to compare with.
//
//   http_put client PORT PATH-PREFIX BYTES CONNECTIONS COUNT     PUTs COUNT objects, each of BYTES, over
//   keep-alive http_put server PORT DIRECTORY                               recv 256 KiB + write + fdatasync
//   + rename, then 200 http_put files DIRECTORY BYTES THREADS COUNT                 create + write +
//   fdatasync + rename, without a network
//
// The client prints one line of JSON.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in loopback(const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A file of noise in memory, so that the client's drive plays no part.
int make_body(uint64_t bytes) {
  const int file = memfd_create("body", 0);
  std::vector<uint64_t> noise(8192);
  uint64_t state = 88172645463325252ULL;
  for (uint64_t done = 0; done < bytes; done += noise.size() * 8) {
    for (uint64_t& word : noise) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      word = state;
    }
    const size_t want = std::min<uint64_t>(noise.size() * 8, bytes - done);
    if (write(file, noise.data(), want) != static_cast<ssize_t>(want)) fail("write");
  }
  return file;
}

void put(int socket, const std::string& head, int body, uint64_t bytes) {
  if (send(socket, head.data(), head.size(), MSG_NOSIGNAL | MSG_MORE) != static_cast<ssize_t>(head.size()))
    fail("send");
  off_t at = 0;
  while (static_cast<uint64_t>(at) < bytes) {
    if (sendfile(socket, body, &at, bytes - static_cast<uint64_t>(at)) <= 0) fail("sendfile");
  }
  std::string answer;
  char buffer[4096];
  while (answer.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = recv(socket, buffer, sizeof buffer, 0);
    if (got <= 0) fail("recv");
    answer.append(buffer, static_cast<size_t>(got));
  }
  if (!answer.starts_with("HTTP/1.1 200")) {
    std::fprintf(stderr, "http_put: %.300s\n", answer.c_str());
    std::exit(1);
  }
}

int run_client(char** argv) {
  const uint64_t bytes = std::strtoull(argv[4], nullptr, 10);
  const int connections = std::atoi(argv[5]);
  const uint64_t count = std::strtoull(argv[6], nullptr, 10);
  const int body = make_body(bytes);
  std::atomic<uint64_t> next = 0;
  std::mutex mutex;
  std::vector<double> latencies;
  const double begun = now();
  std::vector<std::thread> threads;
  for (int i = 0; i < connections; ++i) {
    threads.emplace_back([&] {
      const int made = socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in address = loopback(argv[2]);
      if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
      const int on = 1;
      setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      std::vector<double> own;
      for (uint64_t number = next++; number < count; number = next++) {
        char head[512];
        std::snprintf(head, sizeof head,
                      "PUT %s%08lu HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %lu\r\n\r\n", argv[3],
                      number, bytes);
        const double asked = now();
        put(made, head, body, bytes);
        own.push_back(now() - asked);
      }
      close(made);
      const std::lock_guard lock(mutex);
      latencies.insert(latencies.end(), own.begin(), own.end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = now() - begun;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::sort(latencies.begin(), latencies.end());
  const auto percentile = [&](double share) {
    return latencies[static_cast<size_t>(share * static_cast<double>(latencies.size() - 1))];
  };
  std::printf(
      "{\"requests\": %lu, \"bytes\": %lu, \"seconds\": %.4f, \"p50\": %.6f, \"p99\": %.6f, \"slowest\": "
      "%.6f}\n",
      count, count * bytes, seconds, percentile(0.5), percentile(0.99), latencies.back());
  return 0;
}

// One connection after the other in a thread each: read the head, take the body, make it durable, answer.
void serve(int socket, const std::string& directory) {
  static std::atomic<uint64_t> names = 0;
  std::vector<char> buffer(256 << 10);
  std::string pending;
  while (true) {
    size_t end = 0;
    while ((end = pending.find("\r\n\r\n")) == std::string::npos) {
      const ssize_t got = recv(socket, buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        close(socket);
        return;
      }
      pending.append(buffer.data(), static_cast<size_t>(got));
    }
    uint64_t left = std::strtoull(pending.c_str() + pending.find("Content-Length: ") + 16, nullptr, 10);
    const std::string name = directory + "/" + std::to_string(names++);
    const int file = open((name + ".part").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
    const size_t first = std::min<uint64_t>(left, pending.size() - end - 4);
    if (first > 0 && write(file, pending.data() + end + 4, first) != static_cast<ssize_t>(first))
      fail("write");
    left -= first;
    pending.erase(0, end + 4 + first);
    while (left > 0) {
      const ssize_t got = recv(socket, buffer.data(), std::min<uint64_t>(left, buffer.size()), 0);
      if (got <= 0) fail("recv");
      if (write(file, buffer.data(), static_cast<size_t>(got)) != got) fail("write");
      left -= static_cast<uint64_t>(got);
    }
    if (fdatasync(file) != 0) fail("fdatasync");
    close(file);
    if (rename((name + ".part").c_str(), name.c_str()) != 0) fail("rename");
    constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    if (send(socket, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL) < 0) fail("send");
  }
}

int run_server(char** argv) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = loopback(argv[2]);
  if (bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("bind");
  if (listen(listening, 1024) != 0) fail("listen");
  while (true) {
    const int accepted = accept(listening, nullptr, nullptr);
    if (accepted < 0) fail("accept");
    std::thread([accepted, directory = std::string(argv[3])] { serve(accepted, directory); }).detach();
  }
}

// What a store of plain files would do for each object.
int run_files(char** argv) {
  const std::string directory = argv[2];
  const std::string body(std::strtoull(argv[3], nullptr, 10), 'x');
  const uint64_t count = std::strtoull(argv[5], nullptr, 10);
  std::atomic<uint64_t> next = 0;
  const double begun = now();
  std::vector<std::thread> threads;
  for (int i = 0; i < std::atoi(argv[4]); ++i) {
    threads.emplace_back([&] {
      for (uint64_t number = next++; number < count; number = next++) {
        const std::string name = directory + "/" + std::to_string(number);
        const int file = open((name + ".part").c_str(), O_CREAT | O_WRONLY, 0644);
        if (write(file, body.data(), body.size()) != static_cast<ssize_t>(body.size())) fail("write");
        if (fdatasync(file) != 0) fail("fdatasync");
        close(file);
        if (rename((name + ".part").c_str(), name.c_str()) != 0) fail("rename");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("{\"requests\": %lu, \"seconds\": %.4f}\n", count, now() - begun);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 7 && std::string_view(argv[1]) == "client") return run_client(argv);
  if (argc == 4 && std::string_view(argv[1]) == "server") return run_server(argv);
  if (argc == 6 && std::string_view(argv[1]) == "files") return run_files(argv);
  std::fprintf(stderr,
               "usage: http_put client PORT PREFIX BYTES CONNECTIONS COUNT | server PORT DIRECTORY | files "
               "DIRECTORY BYTES THREADS COUNT\n");
  return 2;
}
