// OpenSSL over memory: records are gathered and leave in one send.
#include "net/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>

namespace millrace::net {

TlsSession::TlsSession(std::shared_ptr<const ServerTls> context)
    : server_(std::move(context)),
      session_(SSL_new(server_->context_)),
      from_peer_(BIO_new(BIO_s_mem())),
      to_peer_(BIO_new(BIO_s_mem())) {
  SSL_set_bio(session_, from_peer_, to_peer_);
  SSL_set_accept_state(session_);
}

TlsSession::TlsSession(std::shared_ptr<const ClientTls> context, std::string host)
    : client_(std::move(context)),
      host_(std::move(host)),
      session_(SSL_new(client_->context_)),
      from_peer_(BIO_new(BIO_s_mem())),
      to_peer_(BIO_new(BIO_s_mem())) {
  SSL_set_bio(session_, from_peer_, to_peer_);
  ClientTls::expect_host(session_, host_);
  SSL_set_connect_state(session_);
}

TlsSession::~TlsSession() {
  SSL_free(session_);
}

void TlsSession::take(std::string_view encrypted) {
  BIO_write(from_peer_, encrypted.data(), static_cast<int>(encrypted.size()));
}

Status TlsSession::handshake() {
  ERR_clear_error();
  const int done = SSL_do_handshake(session_);
  if (done == 1) return {};
  const int reason = SSL_get_error(session_, done);
  if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) return {};
  if (client_) return client_->refusal(session_, host_);
  const int why = ERR_GET_REASON(ERR_peek_error());
  if (why == SSL_R_HTTP_REQUEST || why == SSL_R_HTTPS_PROXY_REQUEST) {
    ERR_clear_error();
    return make_error(Code::kUnsupported, "plain HTTP at a port that speaks TLS");
  }
  return tls_error(Code::kInvalid, "TLS handshake");
}

bool TlsSession::is_established() const {
  return SSL_is_init_finished(session_) == 1;
}

Result<size_t> TlsSession::read(std::span<std::byte> into) {
  size_t have = 0;
  ERR_clear_error();
  // SSL_read stops at each record; a reader with room for several takes them all at once.
  while (have < into.size()) {
    const int got = SSL_read(session_, into.data() + have,
                             static_cast<int>(std::min<size_t>(into.size() - have, 1 << 30)));
    if (got <= 0) {
      const int reason = SSL_get_error(session_, got);
      // What stops this reading stops the next one too, which will say so.
      if (have > 0 || reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) break;
      if (reason == SSL_ERROR_ZERO_RETURN) return make_error(Code::kTruncated, "the peer closed TLS");
      return tls_error(client_ ? Code::kUnavailable : Code::kInvalid, "reading TLS");
    }
    have += static_cast<size_t>(got);
  }
  return have;
}

Status TlsSession::write(std::string_view plain) {
  ERR_clear_error();
  while (!plain.empty()) {
    const int done =
        SSL_write(session_, plain.data(), static_cast<int>(std::min<size_t>(plain.size(), 1 << 30)));
    // The memory BIO takes everything, so that this can only be a broken session.
    if (done <= 0) return tls_error(client_ ? Code::kUnavailable : Code::kInvalid, "writing TLS");
    plain.remove_prefix(static_cast<size_t>(done));
  }
  return {};
}

void TlsSession::close() {
  if (is_established()) SSL_shutdown(session_);
  ERR_clear_error();
}

std::string_view TlsSession::pending() {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(to_peer_, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

void TlsSession::sent() {
  BIO_reset(to_peer_);
}

Status TlsSession::judge_cut() const {
  if (is_established() && server_) return {};
  if (is_established()) return make_error(Code::kUnavailable, "reading: the connection was cut inside TLS");
  if (server_) return make_error(Code::kUnavailable, "the client closed the connection");
  return make_error(Code::kUnavailable, "the server closed the connection instead of answering in TLS")
      .with_hint("does this port speak TLS? If not, begin the address with http:// instead of https://");
}

}  // namespace millrace::net
