// The client whose calls suspend: how it waits for slots, pauses and streams on a loop.
#include "net/async_client.h"

#include "base/assert.h"
#include "base/clock.h"
#include "net/pause.h"

namespace millrace::net {

class AsyncClient::OnLoop final : public Caller {
 public:
  OnLoop(Loop& loop, Resolver& resolver, const ClientOptions& options, std::shared_ptr<const ClientTls> tls)
      : Caller(options, std::move(tls), std::make_shared<Pool>(options.connections_per_host)),
        loop_(loop),
        resolver_(resolver) {
    MR_ASSERT(!options_.lifeline);
    // Idle streams are the loop's, but belong to no task.
    loop.at_end([pool = std::weak_ptr<Pool>(pool_)] {
      if (const auto alive = pool.lock()) alive->close_idle();
    });
  }

 private:
  Task<Status> pause(int64_t ms, Cancellation* scope) override {
    return sleep_until(loop_, steady_us() + static_cast<uint64_t>(ms) * 1000, scope);
  }
  Task<Status> wait_for_slot(const std::string& place, Cancellation* scope) override {
    const uint64_t patience = patience_us(options_.timeouts.io_ms);
    const uint64_t until = patience == Pause::kForever ? patience : steady_us() + patience;
    return pool_->wait_for_slot_on(loop_, place, until, scope);
  }
  Task<Result<std::unique_ptr<Stream>>> open(const Url& url, const Timeouts& timeouts,
                                             Cancellation* scope) override {
    return connect_to({url.host, port_of(url)}, tls_for(url), timeouts, {&loop_, &resolver_, scope, nullptr});
  }

  Loop& loop_;
  Resolver& resolver_;
};

AsyncClient::AsyncClient(Loop& loop, Resolver& resolver, const ClientOptions& options,
                         std::shared_ptr<const ClientTls> tls)
    : caller_(std::make_unique<OnLoop>(loop, resolver, options, std::move(tls))) {}

AsyncClient::~AsyncClient() = default;

Task<Result<AsyncResponse>> AsyncClient::send(Request request, Cancellation* scope) {
  co_return co_await caller_->send(request, scope);
}

Task<Result<AsyncResponse>> AsyncClient::call(Request request, Cancellation* scope) {
  auto response = co_await caller_->send(request, scope);
  if (!response || response->is_success()) co_return response;
  Error error = co_await read_answer_error(request, *response);
  co_return error;
}

}  // namespace millrace::net
