// Sockets of tests on the loopback device.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "base/assert.h"

namespace millrace::testing {

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

inline int make_socket() {
  return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

// Takes a free port for the socket; its number.
inline uint16_t take_free_port(int socket) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  MR_ASSERT(::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

// Has the socket listen at a free port; its number.
inline uint16_t listen_on_loopback(int socket) {
  const uint16_t port = take_free_port(socket);
  MR_ASSERT(::listen(socket, 64) == 0);
  return port;
}

}  // namespace millrace::testing
