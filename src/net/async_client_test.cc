// The client of a loop, against a server that answers by a script, and against our own over TLS.
#include "net/async_client.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/clock.h"
#include "base/log.h"
#include "base/testing/temporary_directory.h"
#include "net/join.h"
#include "net/server.h"
#include "net/testing/run_on.h"
#include "net/testing/script_server.h"

namespace millrace::net {
namespace {

using testing::run_on;

using testing::ScriptServer;
using Asked = ScriptServer::Asked;
using Answer = ScriptServer::Answer;

Request make_get(const std::string& url) {
  Request request;
  request.url = parse_url(url).take();
  return request;
}

// The body, or the error's code and message.
Task<std::string> body_of(AsyncClient* client, Request request, Cancellation* scope) {
  auto response = co_await client->call(std::move(request), scope);
  if (!response)
    co_return fmt::format("{}: {}", code_name(response.error().code()), response.error().message());
  auto body = co_await response->read_all(1 << 30);
  if (!body) co_return fmt::format("{}: {}", code_name(body.error().code()), body.error().message());
  co_return body.take();
}

Task<std::vector<std::string>> bodies_in_turn(AsyncClient* client, std::vector<Request> requests) {
  std::vector<std::string> bodies;
  for (Request& request : requests) {
    std::string body = co_await body_of(client, std::move(request), nullptr);
    bodies.push_back(std::move(body));
  }
  co_return bodies;
}

class AsyncClientTest : public ::testing::Test {
 protected:
  AsyncClient& make_client(const ClientOptions& options = {},
                           std::shared_ptr<const ClientTls> tls = nullptr) {
    client_ = std::make_unique<AsyncClient>(*loop_, resolver_, options, std::move(tls));
    return *client_;
  }
  std::string ask(AsyncClient& client, Request request, Cancellation* scope = nullptr) {
    return run_on(*loop_, body_of(&client, std::move(request), scope));
  }

  Resolver resolver_{1};
  std::unique_ptr<AsyncClient> client_;  // outlives the loop's tasks
  std::unique_ptr<Loop> loop_ = std::make_unique<Loop>();
};

TEST_F(AsyncClientTest, ReadsBodiesOneAfterTheOtherOverOneConnection) {
  ScriptServer server([](const Asked& asked) { return ScriptServer::ok("hello " + asked.target()); });
  AsyncClient& client = make_client();
  const std::vector<Request> requests(10, make_get(server.url("/a")));
  EXPECT_EQ(run_on(*loop_, bodies_in_turn(&client, requests)), std::vector<std::string>(10, "hello /a"));
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(AsyncClientTest, ManyRequestsAtOnceStayBelowTheLimitOfConnections) {
  ScriptServer server([](const Asked& asked) { return ScriptServer::ok(asked.target()); });
  ClientOptions options;
  options.connections_per_host = 3;
  AsyncClient& client = make_client(options);
  std::vector<Task<std::string>> tasks;
  for (int i = 0; i < 50; ++i)
    tasks.push_back(body_of(&client, make_get(server.url(fmt::format("/{}", i))), nullptr));
  const auto bodies = run_on(*loop_, when_all(std::move(tasks)));
  for (size_t i = 0; i < bodies.size(); ++i) EXPECT_EQ(bodies[i], fmt::format("/{}", i));
  EXPECT_LE(server.connections(), 3);
}

TEST_F(AsyncClientTest, WaitingForAConnectionEndsToo) {
  ScriptServer server([](const Asked&) { return Answer{""}; });
  ClientOptions options;
  options.connections_per_host = 1;
  options.most_attempts = 1;
  options.timeouts.first_byte_ms = 200;
  options.timeouts.io_ms = 20;
  AsyncClient& client = make_client(options);
  std::vector<Task<std::string>> tasks;
  tasks.push_back(body_of(&client, make_get(server.url()), nullptr));
  tasks.push_back(body_of(&client, make_get(server.url()), nullptr));
  const auto said = run_on(*loop_, when_all(std::move(tasks)));
  EXPECT_NE(said[0].find("no answer in time"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("all 1 connections"), std::string::npos) << said[1];
}

TEST_F(AsyncClientTest, ANameIsLookedUpOutsideOfTheLoop) {
  ScriptServer server([](const Asked&) { return ScriptServer::ok("here"); });
  Request get = make_get(server.url());
  get.url.host = "localhost";
  EXPECT_EQ(ask(make_client(), get), "here");
}

TEST_F(AsyncClientTest, ANameThatDoesNotExistIsAnError) {
  ClientOptions options;
  options.most_attempts = 1;
  const std::string said = ask(make_client(options), make_get("http://no-such-host.invalid/"));
  EXPECT_NE(said.find("no-such-host.invalid is not known"), std::string::npos) << said;
}

TEST_F(AsyncClientTest, SendsBytesFilesAndMadeBodies) {
  ScriptServer server([](const Asked& asked) { return ScriptServer::ok(asked.body); });
  const testing::TemporaryDirectory directory;
  std::string content(3'000'000, 'a');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>('a' + i % 23);
  ASSERT_TRUE(write_file_atomically(directory.path("f"), content));
  const File file = File::open_read(directory.path("f")).take();
  std::vector<Request> requests(5, make_get(server.url("/b/k")));
  for (Request& request : requests) request.method = "PUT";
  requests[0].body = std::string_view("some bytes");
  requests[1].body = FileRange{&file, 1000, 2'000'000};
  requests[2].body = FileRange{&file, 1000, 0};
  requests[3].body = FileRange{&file, 2'999'000, 2000};
  requests[4].body = GeneratedBody{700'000, [](uint64_t offset, std::span<std::byte> into) -> Result<size_t> {
                                     for (size_t i = 0; i < into.size(); ++i)
                                       into[i] = static_cast<std::byte>('0' + (offset + i) % 10);
                                     return into.size();
                                   }};
  const auto bodies = run_on(*loop_, bodies_in_turn(&make_client(), requests));
  EXPECT_EQ(bodies[0], "some bytes");
  EXPECT_EQ(bodies[1], content.substr(1000, 2'000'000));
  EXPECT_EQ(bodies[2], "");
  EXPECT_NE(bodies[3].find("became shorter"), std::string::npos) << bodies[3];
  EXPECT_EQ(bodies[4].substr(699'990), "0123456789");
}

TEST_F(AsyncClientTest, ACutBodyIsAnErrorThatSaysWhere) {
  ScriptServer server(
      [](const Asked&) { return Answer{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1234", true}; });
  EXPECT_EQ(ask(make_client(), make_get(server.url())),
            fmt::format("{}: the connection was cut at byte 4 of 10", code_name(Code::kTruncated)));
}

TEST_F(AsyncClientTest, ABodyWithoutProgressTimesOut) {
  ScriptServer server(
      [](const Asked&) { return Answer{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1234"}; });
  ClientOptions options;
  options.timeouts.io_ms = 20;
  options.timeouts.first_byte_ms = 10'000;
  const std::string said = ask(make_client(options), make_get(server.url()));
  EXPECT_NE(said.find("no answer in time"), std::string::npos) << said;
}

TEST_F(AsyncClientTest, AServerThatDoesNotTakeConnectionsTimesOut) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const SocketAddress any = *parse_address("127.0.0.1", 0);
  ASSERT_EQ(::bind(listener, any.get(), any.size), 0);
  ASSERT_EQ(::listen(listener, 0), 0);
  const SocketAddress address = SocketAddress::of_own(listener);
  // A full queue of connections: the kernel answers no more.
  std::vector<int> queued;
  for (int i = 0; i < 4; ++i) {
    queued.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    static_cast<void>(::connect(queued.back(), address.get(), address.size));
  }
  ClientOptions options;
  options.timeouts.connect_ms = 30;
  options.most_attempts = 1;
  const std::string said =
      ask(make_client(options), make_get(fmt::format("http://127.0.0.1:{}/", address.port())));
  EXPECT_NE(said.find(fmt::format("connecting to 127.0.0.1 port {}: no answer in time", address.port())),
            std::string::npos)
      << said;
  for (const int socket : queued) ::close(socket);
  ::close(listener);
}

TEST_F(AsyncClientTest, NoServerIsAnErrorThatNamesIt) {
  ClientOptions options;
  options.most_attempts = 1;
  const std::string said = ask(make_client(options), make_get("http://127.0.0.1:1/a"));
  EXPECT_NE(said.find("connecting to 127.0.0.1 port 1: Connection refused"), std::string::npos) << said;
}

TEST_F(AsyncClientTest, ACancelledScopeEndsARequestThatWaits) {
  Cancellation scope;
  ScriptServer server([&](const Asked&) {
    loop_->post([&] { scope.cancel(); });
    return Answer{""};
  });
  const std::string said = ask(make_client(), make_get(server.url()), &scope);
  EXPECT_TRUE(said.starts_with(code_name(Code::kCancelled))) << said;
}

TEST_F(AsyncClientTest, ACancelledScopeEndsThePauseBetweenAttempts) {
  Cancellation scope;
  ScriptServer server([&](const Asked&) {
    loop_->post([&] { scope.cancel(); });
    return ScriptServer::status(503, "", "Retry-After: 30\r\n");
  });
  const std::string said = ask(make_client(), make_get(server.url()), &scope);
  EXPECT_TRUE(said.starts_with(code_name(Code::kCancelled))) << said;
}

TEST_F(AsyncClientTest, AScopeWithATimeLimitsTheWholeOfARequest) {
  ScriptServer server([&](const Asked&) { return Answer{""}; });
  Cancellation scope(*loop_, steady_us() + 20'000);
  const std::string said = ask(make_client(), make_get(server.url()), &scope);
  EXPECT_TRUE(said.starts_with(code_name(Code::kUnavailable))) << said;
  EXPECT_LE(server.asked().size(), 1U) << "there is no time for another attempt";
}

TEST_F(AsyncClientTest, FailuresThatMayPassAreRepeated) {
  ScriptServer server([](const Asked& asked) {
    return asked.number < 2 ? ScriptServer::status(503, "busy", "Retry-After: 0\r\n")
                            : ScriptServer::ok("done");
  });
  EXPECT_EQ(ask(make_client(), make_get(server.url())), "done");
  EXPECT_EQ(server.asked().size(), 3U);
}

TEST_F(AsyncClientTest, AKeptConnectionThatTheServerClosedIsReplaced) {
  ScriptServer server(ScriptServer::ok_and_close);
  ClientOptions options;
  options.most_attempts = 1;
  const std::vector<Request> requests(20, make_get(server.url()));
  EXPECT_EQ(run_on(*loop_, bodies_in_turn(&make_client(options), requests)),
            std::vector<std::string>(20, "x"));
}

TEST_F(AsyncClientTest, RedirectsAreFollowed) {
  ScriptServer target([](const Asked&) { return ScriptServer::ok("found"); });
  ScriptServer first([&](const Asked&) {
    return ScriptServer::status(307, "", "Location: " + target.url("/end") + "\r\n");
  });
  EXPECT_EQ(ask(make_client(), make_get(first.url())), "found");
}

TEST_F(AsyncClientTest, ErrorsCarryWhatTheServerSaid) {
  ScriptServer server([](const Asked&) {
    return ScriptServer::status(404, "<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>");
  });
  const std::string said = ask(make_client(), make_get(server.url("/b/a")));
  EXPECT_NE(said.find("the server answered 404: NoSuchKey: gone"), std::string::npos) << said;
}

Task<void> ask_without_end(AsyncClient* client, Request request) {
  const std::string said = co_await body_of(client, std::move(request), nullptr);
  ADD_FAILURE() << said;
}

Task<void> ask_once(AsyncClient* client, Request request) {
  const std::string said = co_await body_of(client, std::move(request), nullptr);
  EXPECT_EQ(said, "x");
}

TEST_F(AsyncClientTest, ALoopThatGoesTakesRequestsAndIdleConnectionsWithIt) {
  std::atomic<int> asked = 0;
  ScriptServer server([&](const Asked& one) {
    if (one.target() == "/quick") return ScriptServer::ok("x");
    if (++asked == 4) loop_->post([&] { loop_->stop(); });
    return Answer{""};
  });
  ClientOptions options;
  options.connections_per_host = 4;
  AsyncClient& client = make_client(options);
  loop_->spawn(ask_once(&client, make_get(server.url("/quick"))));
  // Six requests for four connections: two of them wait for a slot when the loop goes.
  for (int i = 0; i < 6; ++i) loop_->spawn(ask_without_end(&client, make_get(server.url("/silent"))));
  loop_->run();
  loop_.reset();
  EXPECT_EQ(asked, 4);
}

class GivePattern final : public Handler {
 public:
  Task<Status> handle(Connection& connection) override {
    std::string all;
    std::vector<std::byte> piece(100'000);
    while (true) {
      auto got = co_await connection.read_body(piece);
      if (!got) co_return got.take_error();
      if (*got == 0) break;
      all.append(reinterpret_cast<const char*>(piece.data()), *got);
    }
    connection.start(200);
    co_return co_await connection.send(all.empty() ? "nothing was sent" : all);
  }
};

class AsyncClientTlsTest : public AsyncClientTest {
 protected:
  void SetUp() override {
    files_ = CertificateFiles::open(make_self_signed(directory_.path()).take(), [](const Error&) {}).take();
    ServerOptions options;
    options.listen = parse_listen_address("127.0.0.1:0").take();
    options.threads = 1;
    options.certificates = files_.get();
    server_ = Server::open(std::move(options), handler_, log_).take();
    server_->run();
  }
  std::string url() const { return fmt::format("https://127.0.0.1:{}/", server_->port()); }

  const testing::TemporaryDirectory directory_;
  GivePattern handler_;
  Log log_{LogLevel::kWarn};
  std::unique_ptr<CertificateFiles> files_;
  std::unique_ptr<Server> server_;
};

TEST_F(AsyncClientTlsTest, SpeaksTlsWithOurOwnServerAndKeepsTheConnection) {
  std::string body(3'000'000, 'x');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 19);
  std::vector<Request> requests(4, make_get(url()));
  requests[1].method = requests[3].method = "PUT";
  requests[1].body = requests[3].body = std::string_view(body);
  AsyncClient& client = make_client({}, ClientTls::make(Verify::kInsecure, "").take());
  const auto bodies = run_on(*loop_, bodies_in_turn(&client, requests));
  EXPECT_EQ(bodies[0], "nothing was sent");
  EXPECT_EQ(bodies[1], body);
  EXPECT_EQ(bodies[2], "nothing was sent");
  EXPECT_EQ(bodies[3], body);
  EXPECT_EQ(server_->connections(), 1U);
}

TEST_F(AsyncClientTlsTest, AnUnknownCertificateIsRefused) {
  ClientOptions options;
  options.most_attempts = 1;
  AsyncClient& client = make_client(options, ClientTls::make(Verify::kPeer, "").take());
  const std::string said = ask(client, make_get(url()));
  EXPECT_TRUE(said.starts_with(code_name(Code::kDenied))) << said;
  EXPECT_NE(said.find("self-signed"), std::string::npos) << said;
}

TEST_F(AsyncClientTlsTest, WithoutTlsNothingGoesOutInTheClearInstead) {
  const std::string said = ask(make_client(), make_get(url()));
  EXPECT_TRUE(said.starts_with(code_name(Code::kUnsupported))) << said;
}

}  // namespace
}  // namespace millrace::net
