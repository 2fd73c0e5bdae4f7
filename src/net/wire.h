// Wire: one connection to a server, plain or TLS, with blocking reads and writes that time out.
//
// A Wire belongs to one thread at a time. TlsContext is immutable after make() and may be shared; it outlives
// the wires made with it. Nothing here raises SIGPIPE.
#pragma once

#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"
#include "net/lifeline.h"

namespace millrace::net {

// kInsecure accepts any certificate: for self-signed servers on a network that is trusted otherwise.
enum class Verify { kPeer, kInsecure };

class TlsContext {
 public:
  // An empty ca_file means the system's authorities.
  static Result<std::unique_ptr<TlsContext>> make(Verify verify, const std::string& ca_file);
  ~TlsContext();
  SSL_CTX* get() const { return context_; }
  Verify verify() const { return verify_; }

 private:
  TlsContext(SSL_CTX* context, Verify verify) : context_(context), verify_(verify) {}
  SSL_CTX* context_;
  Verify verify_;
};

struct Timeouts {
  int64_t connect_ms = 10'000;
  int64_t io_ms = 60'000;  // without a single byte
};

struct WireOptions {
  Timeouts timeouts;
  std::shared_ptr<Lifeline> lifeline;  // may be null: only time ends a wait then
};

class Wire {
 public:
  // With no context the bytes go in the clear. Tries every address of the name, in the resolver's order.
  static Result<std::unique_ptr<Wire>> open(const std::string& host, uint16_t port, const TlsContext* tls,
                                            const WireOptions& options);
  ~Wire();

  Result<size_t> read_some(std::span<std::byte> into);  // 0: the peer has closed
  Status write_all(std::string_view first, std::string_view second);
  // From the file to the socket without a copy where the wire is plain.
  Status send_file(const File& file, uint64_t offset, uint64_t size);

  // An idle wire with something to read was closed by its peer, or is out of step.
  bool is_stale() const;

 private:
  Wire(int descriptor, std::shared_ptr<Lifeline> lifeline)
      : descriptor_(descriptor), lifeline_(std::move(lifeline)) {}
  Status start_tls(const std::string& host, const TlsContext& context);
  Error tls_error(int result, std::string_view what);
  Status write_tls(std::string_view bytes);
  Status send_by_copy(const File& file, uint64_t offset, uint64_t size);

  int descriptor_;
  const std::shared_ptr<Lifeline> lifeline_;
  SSL* tls_ = nullptr;
};

}  // namespace millrace::net
