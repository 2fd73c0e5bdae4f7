// Connecting: from a host's name to a Stream that is ready for requests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/address.h"
#include "net/cancellation.h"
#include "net/client_tls.h"
#include "net/lifeline.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/task.h"

namespace millrace::net {

// No address of the host took the connection: nothing was sent.
inline constexpr Reason kNotConnected{Code::kUnavailable, "not connected"};

// 0 waits for ever.
struct Timeouts {
  int64_t connect_ms = 10'000;
  int64_t first_byte_ms = 0;  // of an answer, after the request was sent; 0: as io_ms
  int64_t io_ms = 60'000;     // without a single byte
};

uint64_t patience_us(int64_t ms);  // of a Stream

// How to wait meanwhile: on a loop, or by blocking.
struct Waiting {
  Loop* loop = nullptr;                // null: blocking
  Resolver* resolver = nullptr;        // of the loop
  Cancellation* scope = nullptr;       // of the loop; may be null
  std::shared_ptr<Lifeline> lifeline;  // of blocking streams; may be null
};

// With no TLS the bytes go in the clear. Tries every address of the name, in the name service's order. A
// stream of a loop stays attached to the scope.
Task<Result<std::unique_ptr<Stream>>> connect_to(HostAndPort name, std::shared_ptr<const ClientTls> tls,
                                                 Timeouts timeouts, Waiting waiting);

}  // namespace millrace::net
