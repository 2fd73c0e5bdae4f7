// Client: blocking HTTP/1.1 requests from many threads, over connections that are kept for the next one.
//
// A request is sent, redirects are followed, and failures that may pass are tried again with growing pauses,
// as long as repeating cannot do harm. What fails in the middle of a body is the reader's to mend
// (net/ranged.h). Thread-safe; outlives its responses.
//
// It is the Caller of AsyncClient over streams that block, so that no thread is between a reader and its
// socket: handing each piece over from a loop's thread would cost the loader more than the coroutines do.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "net/caller.h"
#include "net/request.h"
#include "net/response.h"

namespace millrace::net {

class Client {
 public:
  static Result<std::unique_ptr<Client>> make(const ClientOptions& options);
  ~Client();

  // Any status is an answer; an error means that there was none.
  Result<Response> send(const Request& request);
  // A status outside 2xx is an error too, with what the server said about it.
  Result<Response> call(const Request& request);

  const ClientOptions& options() const;
  // Between attempts; an error where the lifeline is cut.
  Status pause(int64_t ms) const;

 private:
  class Blocking;
  explicit Client(std::unique_ptr<Blocking> caller);
  const std::unique_ptr<Blocking> caller_;
};

}  // namespace millrace::net
