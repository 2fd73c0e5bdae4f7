// TlsSession: the translation of one connection's bytes, on either side. It never touches the socket.
//
// Bytes from the peer go in, plain bytes come out, and the other way round; net/stream.h moves them. One
// thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/client_tls.h"
#include "net/tls.h"

struct bio_st;

namespace millrace::net {

class TlsSession {
 public:
  explicit TlsSession(std::shared_ptr<const ServerTls> context);
  TlsSession(std::shared_ptr<const ClientTls> context, std::string host);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  // Bytes that came from the peer.
  void take(std::string_view encrypted);
  // Plain bytes for the program: how many; 0: more must come first. kTruncated: the peer is done. Another
  // error: it is not speaking TLS.
  Result<size_t> read(std::span<std::byte> into);
  Status write(std::string_view plain);
  Status handshake();  // as far as it goes; kUnsupported: the peer speaks plain HTTP
  bool is_established() const;
  void close();
  // Bytes for the peer, produced by any of the above; sent() when all of them are on their way.
  std::string_view pending();
  void sent();
  // What it means that the peer closed its connection before the session was closed: an error, or an end that
  // is as good as any (for a server, whose clients are known to do so).
  Status judge_cut() const;

 private:
  const std::shared_ptr<const ServerTls> server_;  // one of the two
  const std::shared_ptr<const ClientTls> client_;
  const std::string host_;
  ssl_st* const session_;
  bio_st* const from_peer_;
  bio_st* const to_peer_;
};

}  // namespace millrace::net
