// The client whose calls block: how it waits on the calling thread.
#include "net/client.h"

#include <chrono>
#include <thread>

namespace millrace::net {

class Client::Blocking final : public Caller {
 public:
  Blocking(const ClientOptions& options, std::shared_ptr<const ClientTls> tls)
      : Caller(options, std::move(tls), std::make_shared<Pool>(options.connections_per_host)) {}

  Status pause_now(int64_t ms) const {
    if (options_.lifeline) return options_.lifeline->pause(ms);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    return {};
  }

 private:
  Task<Status> pause(int64_t ms, Cancellation*) override { co_return pause_now(ms); }
  Task<Status> wait_for_slot(const std::string& place, Cancellation*) override {
    if (pool_->wait_for_slot(place, options_.timeouts.io_ms)) co_return Status();
    co_return make_error(Code::kUnavailable, "all {} connections to {} are in use",
                         options_.connections_per_host, place);
  }
  Task<Result<std::unique_ptr<Stream>>> open(const Url& url, const Timeouts& timeouts,
                                             Cancellation*) override {
    return connect_to({url.host, port_of(url)}, tls_for(url), timeouts,
                      {nullptr, nullptr, nullptr, options_.lifeline});
  }
};

Result<std::unique_ptr<Client>> Client::make(const ClientOptions& options) {
  auto tls = MR_TRY(ClientTls::make(options.verify, options.ca_file));
  return std::unique_ptr<Client>(new Client(std::make_unique<Blocking>(options, std::move(tls))));
}

Client::Client(std::unique_ptr<Blocking> caller) : caller_(std::move(caller)) {}

Client::~Client() = default;

Result<Response> Client::send(const Request& request) {
  return Response(MR_TRY(caller_->send(request, nullptr).run_now()));
}

Result<Response> Client::call(const Request& request) {
  Response response = MR_TRY(send(request));
  if (response.is_success()) return response;
  return answer_error(request, response);
}

const ClientOptions& Client::options() const {
  return caller_->options();
}

Status Client::pause(int64_t ms) const {
  return caller_->pause_now(ms);
}

}  // namespace millrace::net
