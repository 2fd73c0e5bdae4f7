// Server certificates and keys: read, watched, or self-made.
#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509err.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_stamp.h"
#include "base/mutex.h"

namespace millrace::net {

Error tls_error(Code code, std::string_view what) {
  char text[256] = "unknown reason";
  const unsigned long number = ERR_get_error();
  if (number != 0) ERR_error_string_n(number, text, sizeof text);
  ERR_clear_error();
  return make_error(code, "{}: {}", what, text);
}

namespace {

std::string drain_bio(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

Status add_extension(X509* certificate, int which, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, which, value);
  if (extension == nullptr) return tls_error(Code::kInvalid, "making a certificate");
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  return {};
}

struct MadeCertificate {
  std::string certificate;
  std::string key;
};

Result<MadeCertificate> make_certificate() {
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  if (!key || !certificate) return tls_error(Code::kIo, "making a key");
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 365L * 86400);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"),
                             -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  MR_TRY(add_extension(certificate.get(), NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1"));
  MR_TRY(add_extension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE"));
  if (X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0)
    return tls_error(Code::kIo, "signing a certificate");
  std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(text.get(), certificate.get());
  MadeCertificate made;
  made.certificate = drain_bio(text.get());
  BIO_reset(text.get());
  PEM_write_bio_PrivateKey(text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  made.key = drain_bio(text.get());
  return made;
}

constexpr uint64_t kMaxPemBytes = 16 << 20;

// Each kind of broken file gets its own sentence: OpenSSL has numbers for them.
Status use_certificate(SSL_CTX* context, const std::string& path) {
  const std::string text = MR_TRY(read_file(path, kMaxPemBytes).within("the certificate"));
  if (SSL_CTX_use_certificate_chain_file(context, path.c_str()) != 1) {
    ERR_clear_error();
    if (text.find("-----BEGIN CERTIFICATE-----") == std::string::npos) {
      return make_error(Code::kInvalid, "{} has no certificate in PEM form", path)
          .with_hint(text.find("PRIVATE KEY-----") == std::string::npos
                         ? "it must begin with -----BEGIN CERTIFICATE-----; openssl x509 -inform der converts"
                         : "it is a key: are --tls-cert and --tls-key exchanged?");
    }
    return make_error(Code::kInvalid, "the certificate {} is damaged", path)
        .with_hint("get it again from who made it; openssl x509 -noout -text -in shows what can be read");
  }
  return {};
}

Status use_key(SSL_CTX* context, const std::string& path) {
  const std::string text = MR_TRY(read_file(path, kMaxPemBytes).within("the key of the certificate"));
  // Without this OpenSSL asks at the terminal, and a node has nobody there.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_PrivateKey_file(context, path.c_str(), SSL_FILETYPE_PEM) == 1) return {};
  const bool mismatch = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH ||
                        ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_TYPE_MISMATCH;
  ERR_clear_error();
  if (mismatch) {
    return make_error(Code::kInvalid, "the key {} does not belong to the certificate", path)
        .with_hint("give the key that the certificate was made for");
  }
  if (text.find("PRIVATE KEY-----") == std::string::npos) {
    return make_error(Code::kInvalid, "{} has no key in PEM form", path)
        .with_hint(text.find("-----BEGIN CERTIFICATE-----") == std::string::npos
                       ? "it must begin with -----BEGIN PRIVATE KEY-----; openssl pkey -inform der converts"
                       : "it is a certificate: are --tls-cert and --tls-key exchanged?");
  }
  if (text.find("ENCRYPTED") != std::string::npos) {
    return make_error(Code::kInvalid, "the key {} is locked with a passphrase, which a node cannot type",
                      path)
        .with_hint(
            "openssl pkey -in KEY -out KEY.open unlocks it; keep that file readable to the node alone");
  }
  return make_error(Code::kInvalid, "the key {} is damaged", path).with_hint("get it again from who made it");
}

}  // namespace

Result<std::shared_ptr<const ServerTls>> ServerTls::load(const std::string& certificate,
                                                         const std::string& key) {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return tls_error(Code::kIo, "starting TLS");
  std::shared_ptr<const ServerTls> loaded(new ServerTls(context));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // 128-bit AES first: every processor we serve from has it in hardware, and it is the fastest.
  SSL_CTX_set_ciphersuites(context,
                           "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  MR_TRY(use_certificate(context, certificate));
  MR_TRY(use_key(context, key));
  if (SSL_CTX_check_private_key(context) != 1) {
    ERR_clear_error();
    return make_error(Code::kInvalid, "the key {} does not belong to the certificate {}", key, certificate)
        .with_hint("give the key that the certificate was made for");
  }
  return loaded;
}

std::optional<Error> ServerTls::find_misdated() const {
  const X509* certificate = SSL_CTX_get0_certificate(context_);
  const auto said = [](const ASN1_TIME* time) {
    std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), BIO_free);
    ASN1_TIME_print(text.get(), time);
    return drain_bio(text.get());
  };
  const ASN1_TIME* const until = X509_get0_notAfter(certificate);
  const ASN1_TIME* const from = X509_get0_notBefore(certificate);
  if (X509_cmp_current_time(until) < 0)
    return make_error(Code::kInvalid, "the certificate expired on {}; clients will refuse it: renew it",
                      said(until));
  if (X509_cmp_current_time(from) > 0)
    return make_error(Code::kInvalid,
                      "the certificate is valid only from {} on; is this machine's clock right?", said(from));
  return std::nullopt;
}

ServerTls::~ServerTls() {
  SSL_CTX_free(context_);
}

Result<CertificatePaths> make_self_signed(const std::string& directory) {
  CertificatePaths paths{directory + "/self-signed.crt", directory + "/self-signed.key"};
  if (file_exists(paths.certificate) && file_exists(paths.key)) return paths;
  const MadeCertificate made = MR_TRY(make_certificate());
  MR_TRY(write_secret_file(paths.key, made.key));
  MR_TRY(write_file_atomically(paths.certificate, made.certificate));
  return paths;
}

Result<std::unique_ptr<CertificateFiles>> CertificateFiles::open(
    CertificatePaths paths, std::function<void(const Error&)> on_problem) {
  std::unique_ptr<CertificateFiles> files(new CertificateFiles(std::move(paths), std::move(on_problem)));
  const MutexLock lock(files->mutex_);
  files->stamp_ = file_stamp(files->paths_.certificate) + file_stamp(files->paths_.key);
  files->context_ = MR_TRY(ServerTls::load(files->paths_.certificate, files->paths_.key));
  if (const auto misdated = files->context_->find_misdated()) files->on_problem_(*misdated);
  return files;
}

std::shared_ptr<const ServerTls> CertificateFiles::current() {
  constexpr uint64_t kLookEveryUs = 1'000'000;
  const MutexLock lock(mutex_);
  const uint64_t now = steady_us();
  if (now - looked_us_ >= kLookEveryUs) {
    looked_us_ = now;
    const std::string stamp = file_stamp(paths_.certificate) + file_stamp(paths_.key);
    if (stamp != stamp_) {
      auto loaded = ServerTls::load(paths_.certificate, paths_.key);
      // While only one of the two is replaced they do not fit; the next look finds both, or it is a mistake.
      if (loaded) {
        context_ = loaded.take();
        stamp_ = stamp;
        if (const auto misdated = context_->find_misdated()) on_problem_(*misdated);
      } else if (std::exchange(unusable_, stamp) != stamp) {
        told_ = false;
      } else if (!std::exchange(told_, true)) {
        on_problem_(loaded.take_error().within("the changed certificate cannot be used: the last one stays"));
      }
    }
  }
  return context_;
}

}  // namespace millrace::net
