// The client against a server that answers by a script, well and badly.
#include "net/client.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/testing/temporary_directory.h"
#include "net/ranged.h"
#include "net/testing/script_server.h"

namespace millrace::net {
namespace {

using testing::ScriptServer;
using Asked = ScriptServer::Asked;
using Answer = ScriptServer::Answer;

std::unique_ptr<Client> make_client(ClientOptions options = {}) {
  auto client = Client::make(std::move(options));
  MR_ASSERT(client.has_value());
  return client.take();
}

Request make_get(const std::string& url) {
  Request request;
  request.url = parse_url(url).take();
  return request;
}

std::string body_of(Result<Response> response) {
  if (!response) return response.error().message();
  auto body = response->read_all(1 << 30);
  return body ? body.take() : body.error().message();
}

TEST(ClientTest, ReadsABodyAndUsesTheConnectionAgain) {
  ScriptServer server([](const Asked& asked) { return ScriptServer::ok("hello " + asked.target()); });
  const auto client = make_client();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(body_of(client->call(make_get(server.url("/a")))), "hello /a");
  EXPECT_EQ(server.connections(), 1);
}

TEST(ClientTest, AConnectionThatWasNotReadToTheEndIsNotUsedAgain) {
  ScriptServer server([](const Asked&) { return ScriptServer::ok(std::string(1 << 20, 'x')); });
  const auto client = make_client();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->call(make_get(server.url())));
  EXPECT_EQ(server.connections(), 3);
}

TEST(ClientTest, ReadsChunkedBodies) {
  ScriptServer server([](const Asked&) {
    return Answer{
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nA: "
        "b\r\n\r\n"};
  });
  const auto client = make_client();
  EXPECT_EQ(body_of(client->call(make_get(server.url()))), "hello world");
  EXPECT_EQ(body_of(client->call(make_get(server.url()))), "hello world");
  EXPECT_EQ(server.connections(), 1);
}

TEST(ClientTest, ReadsUntilTheConnectionCloses) {
  ScriptServer server([](const Asked&) { return Answer{"HTTP/1.0 200 OK\r\n\r\nall of it", true}; });
  EXPECT_EQ(body_of(make_client()->call(make_get(server.url()))), "all of it");
}

TEST(ClientTest, SendsBytesFilesAndMadeBodies) {
  ScriptServer server([](const Asked& asked) { return ScriptServer::ok(asked.body); });
  const auto client = make_client();
  Request put = make_get(server.url("/b/k"));
  put.method = "PUT";
  put.body = std::string_view("some bytes");
  EXPECT_EQ(body_of(client->call(put)), "some bytes");

  const testing::TemporaryDirectory directory;
  std::string content(3'000'000, 'a');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>('a' + i % 23);
  ASSERT_TRUE(write_file_atomically(directory.path("f"), content));
  const File file = File::open_read(directory.path("f")).take();
  put.body = FileRange{&file, 1000, 2'000'000};
  EXPECT_EQ(body_of(client->call(put)), content.substr(1000, 2'000'000));
  put.body = FileRange{&file, 2'999'000, 2000};
  EXPECT_FALSE(client->call(put));

  put.body = GeneratedBody{700'000, [](uint64_t offset, std::span<std::byte> into) -> Result<size_t> {
                             for (size_t i = 0; i < into.size(); ++i)
                               into[i] = static_cast<std::byte>('0' + (offset + i) % 10);
                             return into.size();
                           }};
  EXPECT_EQ(body_of(client->call(put)).substr(699'990), "0123456789");
}

TEST(ClientTest, ACutBodyIsAnErrorThatSaysWhere) {
  ScriptServer server(
      [](const Asked&) { return Answer{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1234", true}; });
  EXPECT_EQ(body_of(make_client()->call(make_get(server.url()))), "the connection was cut at byte 4 of 10");
  ScriptServer chunked([](const Asked&) {
    return Answer{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", true};
  });
  EXPECT_EQ(body_of(make_client()->call(make_get(chunked.url()))),
            "the connection was cut at byte 2 of the body");
}

TEST(ClientTest, GarbageIsNotAnAnswer) {
  for (const std::string garbage :
       {"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"}) {
    ScriptServer server([&](const Asked&) { return Answer{garbage, true}; });
    EXPECT_FALSE(make_client()->call(make_get(server.url()))) << garbage;
  }
  for (const std::string chunks : {"x\r\n", "3\r\nabcd\r\n", "fffffffffffffffff\r\n"}) {
    ScriptServer server([&](const Asked&) {
      return Answer{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, true};
    });
    const auto client = make_client();
    auto response = client->call(make_get(server.url()));
    ASSERT_TRUE(response);
    EXPECT_FALSE(response->read_all(1000)) << chunks;
  }
  ScriptServer endless(
      [&](const Asked&) { return Answer{"HTTP/1.1 200 OK\r\nA: " + std::string(200'000, 'a')}; });
  EXPECT_FALSE(make_client()->call(make_get(endless.url())));
}

TEST(ClientTest, AServerThatSaysNothingTimesOut) {
  ScriptServer server([](const Asked&) { return Answer{""}; });
  ClientOptions options;
  options.timeouts.io_ms = 50;
  options.most_attempts = 1;
  const auto response = make_client(options)->call(make_get(server.url()));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), Code::kUnavailable);
}

TEST(ClientTest, NoServerIsAnErrorWithAHint) {
  ClientOptions options;
  options.most_attempts = 1;
  const auto response = make_client(options)->call(make_get("http://127.0.0.1:1/a"));
  ASSERT_FALSE(response);
  EXPECT_NE(response.error().message().find("Connection refused"), std::string::npos)
      << response.error().message();
  EXPECT_FALSE(response.error().hint().empty());
}

TEST(ClientTest, FailuresThatMayPassAreRepeated) {
  ScriptServer server([](const Asked& asked) {
    return asked.number < 2 ? ScriptServer::status(503, "busy", "Retry-After: 0\r\n")
                            : ScriptServer::ok("done");
  });
  EXPECT_EQ(body_of(make_client()->call(make_get(server.url()))), "done");
  EXPECT_EQ(server.asked().size(), 3U);
}

TEST(ClientTest, ARequestThatCannotBeRepeatedIsSentOnce) {
  ScriptServer server([](const Asked&) { return ScriptServer::status(503, "", "Retry-After: 0\r\n"); });
  Request post = make_get(server.url());
  post.method = "POST";
  EXPECT_FALSE(make_client()->call(post));
  EXPECT_EQ(server.asked().size(), 1U);
}

TEST(ClientTest, RepeatingHasALimit) {
  ScriptServer server([](const Asked&) { return ScriptServer::status(503, "", "Retry-After: 0\r\n"); });
  EXPECT_FALSE(make_client()->call(make_get(server.url())));
  EXPECT_EQ(server.asked().size(), 5U);
}

// The first answer, so many others, and then the first one for good.
std::vector<int> statuses_with(int status, int times, const ClientOptions& options) {
  ScriptServer server([&](const Asked& asked) {
    const bool in_order = asked.number == 0 || asked.number > times;
    return in_order ? ScriptServer::ok("x") : ScriptServer::status(status, "", "Retry-After: 0\r\n");
  });
  const auto client = make_client(options);
  std::vector<int> statuses;
  for (int i = 0; i < 2; ++i) {
    const auto response = client->send(make_get(server.url()));
    statuses.push_back(response ? response->status() : 0);
  }
  return statuses;
}

TEST(ClientTest, AHostThatAnsweredBeforeIsWaitedFor) {
  ClientOptions options;
  options.most_attempts = 2;
  for (const int away : {502, 503, 504})
    EXPECT_EQ(statuses_with(away, 8, options), (std::vector{200, 200})) << away;
  EXPECT_EQ(statuses_with(500, 8, options), (std::vector{200, 500})) << "it is there, and fails";
  options.patience_ms = 0;
  EXPECT_EQ(statuses_with(503, 8, options), (std::vector{200, 503}));
}

TEST(ClientTest, AKeptConnectionThatTheServerClosedIsReplaced) {
  ScriptServer server(ScriptServer::ok_and_close);
  ClientOptions options;
  options.most_attempts = 1;
  const auto client = make_client(options);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(body_of(client->call(make_get(server.url()))), "x");
}

TEST(ClientTest, RedirectsAreFollowedWithoutCredentialsToOtherHosts) {
  ScriptServer target([](const Asked& asked) { return ScriptServer::ok(asked.body); });
  ScriptServer first([&](const Asked& asked) {
    if (asked.target() == "/start") return ScriptServer::status(307, "", "Location: /again\r\n");
    return ScriptServer::status(307, "", "Location: " + target.url("/end") + "\r\n");
  });
  ClientOptions options;
  options.credentials = Credentials{"access", "secret", "", "us-east-1"};
  Request put = make_get(first.url("/start"));
  put.method = "PUT";
  put.body = std::string_view("body");
  EXPECT_EQ(body_of(make_client(options)->call(put)), "body");
  ASSERT_EQ(first.asked().size(), 2U);
  EXPECT_NE(first.asked()[1].header("authorization"), "");
  ASSERT_EQ(target.asked().size(), 1U);
  EXPECT_EQ(target.asked()[0].header("authorization"), "");
}

TEST(ClientTest, RedirectsInACircleEnd) {
  ScriptServer server([](const Asked&) { return ScriptServer::status(302, "", "Location: /\r\n"); });
  EXPECT_FALSE(make_client()->call(make_get(server.url())));
  EXPECT_EQ(server.asked().size(), 6U);
}

TEST(ClientTest, WhereNoneMayBeFollowedARedirectIsTheAnswer) {
  ScriptServer server([](const Asked&) { return ScriptServer::status(307, "", "Location: /there\r\n"); });
  ClientOptions options;
  options.most_redirects = 0;
  const auto response = make_client(options)->send(make_get(server.url()));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status(), 307);
  EXPECT_EQ(server.asked().size(), 1U);
}

TEST(ClientTest, SignedRequestsAreGoodForTheOtherSide) {
  ScriptServer server([](const Asked& asked) { return ScriptServer::ok(asked.body); });
  ClientOptions options;
  options.credentials = Credentials{"access", "secret", "token", "us-east-1"};
  Request put = make_get(server.url("/bucket/a%20b+c?partNumber=1&uploadId=x%2Fy"));
  put.method = "PUT";
  put.body = std::string_view("body");
  ASSERT_TRUE(make_client(options)->call(put));
  const Asked asked = server.asked().front();
  SignedRequest seen{"PUT", "/bucket/a%20b+c", "partNumber=1&uploadId=x%2Fy", {}};
  for (const std::string name :
       {"host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "authorization"})
    seen.headers.emplace_back(name, asked.header(name));
  const auto claim = read_claim(seen);
  ASSERT_TRUE(claim && *claim);
  EXPECT_EQ(judge(seen, **claim, "secret", wall_ms()), SignatureProblem::kNone);
}

TEST(ClientTest, ErrorsCarryWhatTheServerSaid) {
  ScriptServer server([](const Asked&) {
    return ScriptServer::status(
        404, "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>no &lt;a&gt;</Message></Error>");
  });
  const auto response = make_client()->call(make_get(server.url("/b/a")));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), Code::kNotFound);
  EXPECT_EQ(response.error().message(),
            "GET " + server.url("/b/a") + ": the server answered 404: NoSuchKey: no <a>");
}

TEST(ClientTest, AnEarlyAnswerToALargeBodyIsHeard) {
  ScriptServer server([](const Asked&) { return Answer{}; });
  // Speaks before the body has come, then closes.
  const int listener = testing::make_socket();
  const uint16_t port = testing::listen_on_loopback(listener);
  std::thread refuser([&] {
    const int socket = ::accept(listener, nullptr, nullptr);
    const std::string answer = "HTTP/1.1 507 Full\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    static_cast<void>(::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL));
    ::shutdown(socket, SHUT_WR);
    char bytes[65536];
    while (::recv(socket, bytes, sizeof bytes, 0) > 0) {
    }
    ::close(socket);
  });
  Request put = make_get(fmt::format("http://127.0.0.1:{}/b/k", port));
  put.method = "PUT";
  const std::string body(20'000'000, 'x');
  put.body = std::string_view(body);
  const auto response = make_client()->call(put);
  refuser.join();
  ::close(listener);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), Code::kNoSpace) << response.error().message();
}

TEST(ClientTest, HeadersWithLineBreaksAreRefused) {
  ScriptServer server([](const Asked&) { return ScriptServer::ok(""); });
  Request get = make_get(server.url());
  get.headers.emplace_back("x-amz-meta-a", "b\r\nx-evil: 1");
  EXPECT_FALSE(make_client()->call(get));
  EXPECT_TRUE(server.asked().empty());
}

TEST(ClientTest, ManyThreadsStayBelowTheLimitOfConnections) {
  ScriptServer server([](const Asked&) { return ScriptServer::ok("x"); });
  ClientOptions options;
  options.connections_per_host = 3;
  const auto client = make_client(options);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) EXPECT_EQ(body_of(client->call(make_get(server.url()))), "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(server.connections(), 3);
}

std::string ranged_content() {
  std::string content(100'000, 0);
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>('a' + i % 26);
  return content;
}

// Serves ranges, but never more than 30 000 bytes of them before it cuts.
Answer cut_range(const Asked& asked, const std::string& content, const std::string& etag) {
  const std::string range = asked.header("range");
  size_t first = 0;
  size_t last = content.size() - 1;
  if (!range.empty()) {
    first = std::stoul(range.substr(6));
    const std::string end = range.substr(range.find('-') + 1);
    if (!end.empty()) last = std::min<size_t>(last, std::stoul(end));
  }
  const size_t size = last + 1 - first;
  std::string head = range.empty() ? "HTTP/1.1 200 OK\r\n"
                                   : fmt::format("HTTP/1.1 206 Part\r\nContent-Range: bytes {}-{}/{}\r\n",
                                                 first, last, content.size());
  head += fmt::format("Content-Length: {}\r\nETag: {}\r\n\r\n", size, etag);
  return {head + content.substr(first, std::min<size_t>(size, 30'000)), size > 30'000};
}

Result<std::string> read_range(const ScriptServer& server, ByteRange range) {
  const auto client = make_client();
  auto reader = MR_TRY(RangedReader::open(*client, parse_url(server.url("/b/k")).take(), {range, {}, {}}));
  std::string bytes;
  std::vector<std::byte> buffer(8192);
  while (true) {
    const size_t got = MR_TRY(reader->read_some(buffer));
    if (got == 0) return bytes;
    bytes.append(reinterpret_cast<const char*>(buffer.data()), got);
  }
}

TEST(RangedReaderTest, GoesOnWhereItWasCut) {
  const std::string content = ranged_content();
  ScriptServer server([&](const Asked& asked) { return cut_range(asked, content, "\"v1\""); });
  const auto whole = read_range(server, {});
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ(*whole, content);
  EXPECT_EQ(server.asked().size(), 4U);
  EXPECT_EQ(server.asked()[1].header("range"), "bytes=30000-");
  EXPECT_EQ(server.asked()[1].header("if-match"), "\"v1\"");
  const auto part = read_range(server, {10'000, 50'000});
  ASSERT_TRUE(part) << part.error().message();
  EXPECT_EQ(*part, content.substr(10'000, 50'000));
  EXPECT_EQ(*read_range(server, {10, 0}), "");
}

TEST(RangedReaderTest, AnotherVersionIsNotMixedIn) {
  const std::string content = ranged_content();
  ScriptServer server(
      [&](const Asked& asked) { return cut_range(asked, content, asked.number == 0 ? "\"v1\"" : "\"v2\""); });
  const auto whole = read_range(server, {});
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().code(), Code::kCorrupt);
  ScriptServer strict([&](const Asked& asked) {
    return asked.number == 0 ? cut_range(asked, content, "\"v1\"") : ScriptServer::status(412);
  });
  EXPECT_EQ(read_range(strict, {}).error().code(), Code::kCorrupt);
}

TEST(RangedReaderTest, AServerWithoutRangesWorksToo) {
  const std::string content = ranged_content();
  ScriptServer server([&](const Asked& asked) {
    Answer answer = ScriptServer::ok(content);
    if (asked.number == 0) answer = {answer.bytes.substr(0, 50'000), true};
    return answer;
  });
  const auto whole = read_range(server, {});
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ(*whole, content);
}

TEST(RangedReaderTest, GivesUpWithoutProgress) {
  ScriptServer server(
      [&](const Asked&) { return Answer{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", true}; });
  EXPECT_EQ(read_range(server, {}).error().code(), Code::kTruncated);
  EXPECT_EQ(server.asked().size(), 9U);
}

}  // namespace
}  // namespace millrace::net
