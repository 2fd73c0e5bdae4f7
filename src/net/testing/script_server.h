// ScriptServer: a server for tests that answers by a script, well or badly, and keeps what it was asked.
//
// Each connection is served by its own thread; each request is handed to the script, whose text is sent as it
// is.
#pragma once

#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/text.h"
#include "net/testing/loopback.h"

namespace millrace::testing {

class ScriptServer {
 public:
  struct Asked {
    std::string head;
    std::string body;
    int number = 0;      // of all requests, from 0
    int connection = 0;  // from 0
    std::string method() const { return head.substr(0, head.find(' ')); }
    std::string target() const {
      const size_t start = head.find(' ') + 1;
      return head.substr(start, head.find(' ', start) - start);
    }
    std::string header(const std::string& name) const {
      const size_t at = head.find("\r\n" + name + ": ");
      if (at == std::string::npos) return {};
      const size_t start = at + name.size() + 4;
      return head.substr(start, head.find("\r\n", start) - start);
    }
  };
  struct Answer {
    std::string bytes;
    bool then_close = false;
  };
  using Script = std::function<Answer(const Asked&)>;

  explicit ScriptServer(Script script) : script_(std::move(script)) {
    listener_ = make_socket();
    port_ = listen_on_loopback(listener_);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~ScriptServer() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const MutexLock lock(mutex_);
      for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    for (const int socket : sockets_) ::close(socket);
    ::close(listener_);
  }

  std::string url(const std::string& path = "/") const {
    return fmt::format("http://127.0.0.1:{}{}", port_, path);
  }
  std::vector<Asked> asked() const {
    const MutexLock lock(mutex_);
    return asked_;
  }
  int connections() const {
    const MutexLock lock(mutex_);
    return static_cast<int>(sockets_.size());
  }

  // Closes each connection behind its first answer.
  static Answer ok_and_close(const Asked&) {
    Answer answer = ok("x");
    answer.then_close = true;
    return answer;
  }
  static Answer ok(const std::string& body, const std::string& more_headers = "") {
    return {
        fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n{}", body.size(), more_headers, body)};
  }
  static Answer status(int code, const std::string& body = "", const std::string& more_headers = "") {
    return {fmt::format("HTTP/1.1 {} Status\r\nContent-Length: {}\r\n{}\r\n{}", code, body.size(),
                        more_headers, body)};
  }

 private:
  void accept_all() {
    while (true) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      const MutexLock lock(mutex_);
      const int number = static_cast<int>(sockets_.size());
      sockets_.push_back(socket);
      threads_.emplace_back([this, socket, number] { serve(socket, number); });
    }
  }

  void serve(int socket, int connection) {
    std::string buffer;
    while (true) {
      Asked asked;
      size_t end = 0;
      while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
        if (!fill(socket, buffer)) return;
      }
      asked.head = buffer.substr(0, end + 2);
      buffer.erase(0, end + 4);
      const std::string length = asked.header("content-length");
      const size_t size = length.empty() ? 0 : std::stoul(length);
      while (buffer.size() < size) {
        if (!fill(socket, buffer)) return;
      }
      asked.body = buffer.substr(0, size);
      buffer.erase(0, size);
      asked.connection = connection;
      {
        const MutexLock lock(mutex_);
        asked.number = static_cast<int>(asked_.size());
        asked_.push_back(asked);
      }
      const Answer answer = script_(asked);
      for (size_t sent = 0; sent < answer.bytes.size();) {
        const ssize_t some =
            ::send(socket, answer.bytes.data() + sent, answer.bytes.size() - sent, MSG_NOSIGNAL);
        if (some <= 0) break;
        sent += static_cast<size_t>(some);
      }
      if (answer.then_close) {
        ::shutdown(socket, SHUT_RDWR);
        return;
      }
    }
  }

  static bool fill(int socket, std::string& buffer) {
    char bytes[65536];
    const ssize_t got = ::recv(socket, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    buffer.append(bytes, static_cast<size_t>(got));
    return true;
  }

  const Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread acceptor_;
  mutable Mutex mutex_;
  std::vector<Asked> asked_ MR_GUARDED_BY(mutex_);
  std::vector<int> sockets_ MR_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::testing
