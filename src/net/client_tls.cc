// TLS settings of clients: which certificates they trust, and a refusal's reason in words.
#include "net/client_tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <optional>

namespace millrace::net {

namespace {

// Why a certificate is not believed, in words, with what helps.
Error distrust(int64_t verdict, const std::string& host) {
  constexpr const char* kOwnServer =
      "--ca-file FILE (or MILLRACE_CA_FILE) names the certificate to trust; --insecure-tls trusts any, for a "
      "server of your own";
  switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return make_error(Code::kDenied, "its certificate has expired")
          .with_hint("who runs the server must renew it; is this machine's clock right?");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return make_error(Code::kDenied, "its certificate is not valid yet")
          .with_hint("is this machine's clock right?");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return make_error(Code::kDenied, "its certificate is for another name than {}", host)
          .with_hint("use the name that the certificate is for");
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return make_error(Code::kDenied, "its certificate is self-signed and not trusted")
          .with_hint(kOwnServer);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return make_error(Code::kDenied, "its certificate was signed by an authority that is not trusted here")
          .with_hint(kOwnServer);
    default:
      return make_error(Code::kDenied, "its certificate is not trusted: {}",
                        X509_verify_cert_error_string(verdict))
          .with_hint(kOwnServer);
  }
}

// Failures of a handshake that have one cause each.
std::optional<Error> known_refusal(unsigned long failure) {
  switch (ERR_GET_REASON(failure)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST:
      return make_error(Code::kDenied, "this port does not speak TLS")
          .with_hint(
              "begin the address with http:// instead of https://, or is this another port than meant?");
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return make_error(Code::kDenied,
                        "the server and this program have no version or cipher of TLS in common")
          .with_hint("the server must speak TLS 1.2 or newer");
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return make_error(Code::kDenied,
                        "the server wants a certificate of the client, which is not supported here");
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<std::shared_ptr<const ClientTls>> ClientTls::make(Verify verify, const std::string& ca_file) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return make_error(Code::kIo, "TLS cannot be set up");
  std::shared_ptr<const ClientTls> made(new ClientTls(context, verify));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
  SSL_CTX_set_verify(context, verify == Verify::kPeer ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr) != 1) {
    ERR_clear_error();
    return make_error(Code::kInvalid, "{} has no certificates that can be read", ca_file)
        .with_hint("it must be a PEM file");
  }
  return made;
}

ClientTls::~ClientTls() {
  SSL_CTX_free(context_);
}

void ClientTls::expect_host(SSL* session, const std::string& host) {
  unsigned char address[16];
  const bool numeric =
      ::inet_pton(AF_INET, host.c_str(), address) == 1 || ::inet_pton(AF_INET6, host.c_str(), address) == 1;
  if (numeric) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str());
  } else {
    SSL_set_tlsext_host_name(session, host.c_str());
    SSL_set1_host(session, host.c_str());
  }
}

Error ClientTls::refusal(const SSL* session, const std::string& host) const {
  const unsigned long failure = ERR_peek_last_error();
  ERR_clear_error();
  const int64_t verdict = SSL_get_verify_result(session);
  if (verify_ == Verify::kPeer && verdict != X509_V_OK) return distrust(verdict, host);
  if (const auto known = known_refusal(failure)) return known->copy();
  const char* reason = ERR_reason_error_string(failure);
  return make_error(Code::kUnavailable, "the handshake: {}",
                    reason != nullptr ? reason : "the peer has closed");
}

}  // namespace millrace::net
