// AsyncClient: HTTP/1.1 requests from the coroutines of one loop, which never block its thread.
//
// Connections are kept for the next request; failures that may pass are tried again, and redirects followed,
// as net::Client does it (net/caller.h). A request ends in vain by its timeouts or with its scope. Belongs to
// its loop's thread, like everything it gives. The resolver and the client outlive the loop's tasks; the
// client may outlive the loop, and then is of no use any more.
#pragma once

#include <memory>

#include "base/result.h"
#include "net/address.h"
#include "net/caller.h"
#include "net/cancellation.h"
#include "net/loop.h"
#include "net/request.h"
#include "net/response.h"
#include "net/task.h"

namespace millrace::net {

class AsyncClient {
 public:
  // The options' certificates are those of `tls`, which several loops share. Without any, https is refused.
  AsyncClient(Loop& loop, Resolver& resolver, const ClientOptions& options,
              std::shared_ptr<const ClientTls> tls);
  ~AsyncClient();

  // Any status is an answer; an error means that there was none.
  Task<Result<AsyncResponse>> send(Request request, Cancellation* scope = nullptr);
  // A status outside 2xx is an error too, with what the server said about it.
  Task<Result<AsyncResponse>> call(Request request, Cancellation* scope = nullptr);

 private:
  class OnLoop;
  const std::unique_ptr<OnLoop> caller_;
};

}  // namespace millrace::net
