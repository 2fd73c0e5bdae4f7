// Which requests a server that drains still serves, and which it waits for.
#include "net/server.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "net/client.h"

namespace millrace::net {
namespace {

// /held is answered when the test lets it; what begins with /others outlasts a drain.
class DrainTest : public ::testing::Test, public Handler {
 protected:
  DrainTest() {
    ServerOptions options;
    options.listen = parse_listen_address("127.0.0.1:0").take();
    options.threads = 1;
    server_ = Server::open(options, *this, log_).take();
    server_->run();
  }
  ~DrainTest() override { server_->stop(); }

  Task<Status> handle(Connection& connection) override {
    if (connection.request().path.ends_with("held")) {
      std::function<void(std::function<void(Status)>)> hold = [this](std::function<void(Status)> done) {
        const MutexLock lock(mutex_);
        held_.push_back(std::move(done));
        changed_.notify_all();
      };
      auto released = co_await await_callback<Status>(connection.loop(), std::move(hold));
      if (!released) co_return released;
    }
    connection.start(200);
    co_return co_await connection.send("done");
  }
  bool outlasts_drain(const RequestHead& request) const override {
    return request.path.starts_with("/others");
  }

  int get(const std::string& path) {
    ClientOptions options;
    options.most_attempts = 1;
    const auto client = Client::make(options).take();
    Request request;
    request.url = parse_url(fmt::format("http://127.0.0.1:{}{}", server_->port(), path)).take();
    auto response = client->send(request);
    return response ? response->status() : 0;
  }
  void wait_for_held(size_t count) {
    UniqueLock lock(mutex_);
    changed_.wait(lock, [&]() MR_REQUIRES(mutex_) { return held_.size() == count; });
  }
  void let_go() {
    const MutexLock lock(mutex_);
    for (const auto& done : held_) done({});
    held_.clear();
  }

  Log log_{LogLevel::kWarn};
  std::unique_ptr<Server> server_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::function<void(Status)>> held_ MR_GUARDED_BY(mutex_);
};

using Refused = Server::Refused;

TEST_F(DrainTest, RequestsThatOutlastItAreServedAndNotWaitedFor) {
  int answered = 0;
  std::thread other([&] { answered = get("/others/held"); });
  wait_for_held(1);
  EXPECT_EQ(server_->requests_under_way(), 1U);
  EXPECT_EQ(server_->drain(Refused::kUsual, 60'000), 0U);
  EXPECT_EQ(get("/usual"), 503);
  EXPECT_EQ(get("/others"), 200);
  EXPECT_EQ(server_->drain(Refused::kAll, 0), 1U);
  EXPECT_EQ(get("/others"), 503);
  let_go();
  other.join();
  EXPECT_EQ(answered, 200);
  EXPECT_EQ(server_->drain(Refused::kAll, 60'000), 0U);
}

TEST_F(DrainTest, UsualRequestsUnderWayAreFinished) {
  int answered = 0;
  std::thread usual([&] { answered = get("/held"); });
  wait_for_held(1);
  EXPECT_EQ(server_->drain(Refused::kUsual, 0), 1U);
  std::thread letting([&] { let_go(); });
  EXPECT_EQ(server_->drain(Refused::kUsual, 60'000), 0U);
  letting.join();
  usual.join();
  EXPECT_EQ(answered, 200);
}

TEST_F(DrainTest, ItIsQuietOnceNothingThatOutlastsItWasThereForLong) {
  server_->drain(Refused::kUsual, 0);
  const uint64_t began_us = steady_us();
  EXPECT_EQ(get("/others"), 200);
  server_->wait_for_quiet(20, 60'000);
  EXPECT_GE(steady_us(), began_us + 20'000);
  // It gives up at its limit while something is there.
  std::thread other([&] { get("/others/held"); });
  wait_for_held(1);
  server_->wait_for_quiet(20, 50);
  let_go();
  other.join();
}

}  // namespace
}  // namespace millrace::net
