// Caller: requests with kept connections, retries and redirects. What Client and AsyncClient share.
//
// It is written as coroutines over Streams. The three places where a client waits for something else than its
// stream are left to the derived class: a free connection, a new one, and the pause between attempts. Where
// those block, nothing suspends, and send() runs in one call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/cancellation.h"
#include "net/connect.h"
#include "net/neighbours.h"
#include "net/pool.h"
#include "net/request.h"
#include "net/response.h"
#include "net/task.h"

namespace millrace::net {

inline constexpr int kMaxRedirects = 5;
inline constexpr int64_t kFirstPauseMs = 100;
inline constexpr int64_t kLongestPauseMs = 10'000;
inline constexpr int64_t kLongestRetryAfterMs = 30'000;  // whatever the server asks for
// Of a host where others can be asked instead.
inline constexpr int64_t kHurriedConnectMs = 1'000;
inline constexpr int64_t kHurriedFirstByteMs = 10'000;

struct ClientOptions {
  Timeouts timeouts;
  size_t connections_per_host = 64;
  Verify verify = Verify::kPeer;
  std::string ca_file;                     // empty: the system's authorities
  std::optional<Credentials> credentials;  // every request is signed with them
  std::string user_agent = "millrace";
  int most_attempts = 5;
  int most_redirects = kMaxRedirects;  // 0: a redirect is an answer like any other
  // A host that answered before may be away for so long, say while it is started again.
  int64_t patience_ms = 60'000;
  // Where clusters are, for requests that another node may answer as well. May be null.
  std::shared_ptr<Neighbours> neighbours;
  // Cutting it ends every call. May be null; not for AsyncClient, which has scopes for that.
  std::shared_ptr<Lifeline> lifeline;
};

class Caller {
 public:
  virtual ~Caller() = default;
  // Any status is an answer; an error means that there was none. The request outlives the call.
  Task<Result<AsyncResponse>> send(const Request& request, Cancellation* scope);
  virtual Task<Status> pause(int64_t ms, Cancellation* scope) = 0;
  const ClientOptions& options() const { return options_; }

 protected:
  Caller(ClientOptions options, std::shared_ptr<const ClientTls> tls, std::shared_ptr<Pool> pool)
      : options_(std::move(options)), tls_(std::move(tls)), pool_(std::move(pool)) {}
  std::shared_ptr<const ClientTls> tls_for(const Url& url) const {
    return url.scheme == "https" ? tls_ : nullptr;
  }
  const ClientOptions options_;
  const std::shared_ptr<const ClientTls> tls_;
  const std::shared_ptr<Pool> pool_;

 private:
  virtual Task<Status> wait_for_slot(const std::string& place, Cancellation* scope) = 0;
  virtual Task<Result<std::unique_ptr<Stream>>> open(const Url& url, const Timeouts& timeouts,
                                                     Cancellation* scope) = 0;

  Task<Result<Lease>> take_connection(const std::string& place, Cancellation* scope);
  // Nothing for a request that only its own host can answer.
  Neighbours* neighbours_for(const Request& request) const;
  // kPatient: with pauses, as long as the options say. kHurried: once, and somebody else is asked next.
  enum class Haste : uint8_t { kPatient, kHurried };
  Task<Result<AsyncResponse>> send_once(const Request& request, const std::optional<Credentials>& credentials,
                                        Haste haste, Cancellation* scope);
  Task<Result<AsyncResponse>> send_with_retries(const Request& request,
                                                const std::optional<Credentials>& credentials,
                                                Cancellation* scope);
  Task<Result<AsyncResponse>> send_following(Request request, Haste haste, Cancellation* scope);
  Task<Result<AsyncResponse>> send_somewhere(const Request& request, Neighbours& neighbours,
                                             Cancellation* scope);
  // Every one of them once; the last failure where all failed.
  Task<Result<AsyncResponse>> send_to_each(const Request& request, std::vector<std::string> places,
                                           Neighbours& neighbours, Cancellation* scope);
};

}  // namespace millrace::net
