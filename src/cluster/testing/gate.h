// Gate: a relay of TCP connections for tests, which can be closed: then everyone behind it is cut off.
//
// Closing breaks the connections that there are; new ones are broken at once until it is opened again. The
// test's thread owns it.
#pragma once

#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "net/testing/loopback.h"

namespace millrace::testing {

class Gate {
 public:
  // To a port of the loopback device.
  explicit Gate(uint16_t target) : target_(target), listener_(make_socket()) {
    port_ = listen_on_loopback(listener_);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close();
    for (std::thread& thread : threads_) thread.join();
    for (const int socket : sockets_) ::close(socket);
    ::close(listener_);
  }

  uint16_t port() const { return port_; }
  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
  }
  void open() {
    const MutexLock lock(mutex_);
    closed_ = false;
  }
  // Connections that met a closed gate.
  int refused() const {
    const MutexLock lock(mutex_);
    return refused_;
  }

 private:
  void accept_all() {
    while (true) {
      const int near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (near < 0) return;
      const MutexLock lock(mutex_);
      const int far = make_socket();
      sockaddr_in address = loopback(target_);
      const bool reached =
          !closed_ && ::connect(far, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
      if (closed_) ++refused_;
      sockets_.push_back(near);
      sockets_.push_back(far);
      if (!reached) {
        ::shutdown(near, SHUT_RDWR);
        continue;
      }
      threads_.emplace_back([near, far] { pump(near, far); });
      threads_.emplace_back([near, far] { pump(far, near); });
    }
  }

  static void pump(int from, int to) {
    char bytes[65536];
    while (true) {
      const ssize_t got = ::recv(from, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      for (ssize_t sent = 0; sent < got;) {
        const ssize_t some = ::send(to, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
        if (some <= 0) break;
        sent += some;
      }
    }
    ::shutdown(from, SHUT_RDWR);
    ::shutdown(to, SHUT_RDWR);
  }

  const uint16_t target_;
  const int listener_;
  uint16_t port_ = 0;
  std::thread acceptor_;
  mutable Mutex mutex_;
  bool closed_ MR_GUARDED_BY(mutex_) = false;
  int refused_ MR_GUARDED_BY(mutex_) = 0;
  // The acceptor fills these; the destructor empties them after it has ended.
  std::vector<int> sockets_ MR_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::testing
