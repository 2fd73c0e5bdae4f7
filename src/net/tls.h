// TLS for the server: certificates, and the translation of one connection's bytes.
//
// ServerTls is an immutable snapshot shared by connections; CertificateFiles makes a new one when the files
// change. TlsSession belongs to one connection's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/result.h"

struct ssl_ctx_st;
struct ssl_st;
struct bio_st;

namespace millrace::net {

class ServerTls {
 public:
  static Result<std::shared_ptr<const ServerTls>> load(const std::string& certificate,
                                                       const std::string& key);
  ~ServerTls();
  // Why clients will refuse the certificate today, where its dates are the reason.
  std::optional<Error> find_misdated() const;

 private:
  friend class TlsSession;
  explicit ServerTls(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

// A certificate and key for trials, valid for localhost and 127.0.0.1 for a year; written into `directory`
// (the key readable by its owner only) unless they are there already.
struct CertificatePaths {
  std::string certificate;
  std::string key;
};
Result<CertificatePaths> make_self_signed(const std::string& directory);

class CertificateFiles {
 public:
  // `on_problem` is told once of each change that cannot be used, and of a certificate that is used although
  // its dates are wrong.
  static Result<std::unique_ptr<CertificateFiles>> open(CertificatePaths paths,
                                                        std::function<void(const Error&)> on_problem);
  // The context of the files as they are now. Files that changed but cannot be used leave the old one in
  // place.
  std::shared_ptr<const ServerTls> current();

 private:
  CertificateFiles(CertificatePaths paths, std::function<void(const Error&)> on_problem)
      : paths_(std::move(paths)), on_problem_(std::move(on_problem)) {}
  const CertificatePaths paths_;
  const std::function<void(const Error&)> on_problem_;
  Mutex mutex_;
  std::shared_ptr<const ServerTls> context_ MR_GUARDED_BY(mutex_);
  uint64_t looked_us_ MR_GUARDED_BY(mutex_) = 0;
  std::string stamp_ MR_GUARDED_BY(mutex_);     // what the files looked like
  std::string unusable_ MR_GUARDED_BY(mutex_);  // the same, when they last did not fit
  bool told_ MR_GUARDED_BY(mutex_) = false;     // of that
};

class TlsSession {
 public:
  explicit TlsSession(std::shared_ptr<const ServerTls> context);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  // Bytes that came from the peer.
  void take(std::string_view encrypted);
  // Plain bytes for the program: how many; 0: more must come first. kTruncated: the peer is done. kInvalid:
  // it is not speaking TLS.
  Result<size_t> read(std::span<std::byte> into);
  Status write(std::string_view plain);
  Status handshake();  // as far as it goes; kUnsupported: the peer speaks plain HTTP
  bool is_established() const;
  void close();
  // Bytes for the peer, produced by any of the above; sent() when all of them are on their way.
  std::string_view pending();
  void sent();

 private:
  std::shared_ptr<const ServerTls> context_;
  ssl_st* session_;
  bio_st* from_peer_;
  bio_st* to_peer_;
};

}  // namespace millrace::net
