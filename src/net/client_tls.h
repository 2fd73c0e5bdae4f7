// ClientTls: what a client believes of servers' certificates. Immutable once made; shared by its sessions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace millrace::net {

// kInsecure accepts any certificate: for self-signed servers on a network that is trusted otherwise.
enum class Verify { kPeer, kInsecure };

class ClientTls {
 public:
  // An empty ca_file means the system's authorities.
  static Result<std::shared_ptr<const ClientTls>> make(Verify verify, const std::string& ca_file);
  ClientTls(const ClientTls&) = delete;
  ClientTls& operator=(const ClientTls&) = delete;
  ~ClientTls();

 private:
  friend class TlsSession;
  ClientTls(ssl_ctx_st* context, Verify verify) : context_(context), verify_(verify) {}
  // Readies a session for a host: its name is sent, and the certificate must be for it.
  static void expect_host(ssl_st* session, const std::string& host);
  // Why a handshake failed, in words, with what helps.
  Error refusal(const ssl_st* session, const std::string& host) const;

  ssl_ctx_st* const context_;
  const Verify verify_;
};

}  // namespace millrace::net
