// TLS of the server: its certificate and key.
//
// ServerTls is an immutable snapshot shared by connections; CertificateFiles makes a new one when the files
// change, and is thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/result.h"

struct ssl_ctx_st;

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

// What OpenSSL says of its last failure on this thread.
Error tls_error(Code code, std::string_view what);

}  // namespace millrace::net
