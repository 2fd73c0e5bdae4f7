// What the receiving side refuses, from senders that do as they like.
#include "cluster/peer_service.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/clock.h"
#include "base/log.h"
#include "net/client.h"
#include "net/server.h"

namespace millrace::cluster {
namespace {

PeerSecret secret() {
  return PeerSecret::make("c1", "0123456789abcdef").take();
}

struct Answered {
  int status = 0;
  std::string seal;
  std::string body;
};

// Node 2, and a client that sends it whatever a test says.
class PeerServiceTest : public ::testing::Test, public net::Handler {
 protected:
  PeerServiceTest() {
    net::ServerOptions options;
    options.listen = net::parse_listen_address("127.0.0.1:0").take();
    options.threads = 1;
    server_ = net::Server::open(options, *this, log_).take();
    server_->run();
    net::ClientOptions client;
    client.most_attempts = 1;
    client_ = net::Client::make(client).take();
  }
  ~PeerServiceTest() override { server_->stop(); }
  net::Task<Status> handle(net::Connection& connection) override { return service_.serve(connection); }

  net::Request post(const std::string& seal, std::string_view body) const {
    net::Request request;
    request.method = "POST";
    request.url = net::parse_url(fmt::format("http://127.0.0.1:{}/-/peer", server_->port())).take();
    if (!seal.empty()) request.headers.emplace_back(kSealHeader, seal);
    request.body = body;
    request.repeat = net::Repeat::kNever;
    return request;
  }
  Answered send(const net::Request& request) {
    auto response = client_->send(request);
    if (!response) return {0, "", response.error().message()};
    const std::string* const seal = response->find_header(kSealHeader);
    Answered answered{response->status(), seal == nullptr ? "" : *seal, ""};
    auto body = response->read_all(1 << 20);
    answered.body = body ? body.take() : body.error().message();
    return answered;
  }
  RequestSeal seal(std::string_view body, int64_t at_ms = wall_ms()) {
    return sealer_.seal(2, {"POST", kPeerPath, body}, at_ms);
  }
  void expect_refused(const net::Request& request, int status, const std::string& why) {
    const Answered answered = send(request);
    EXPECT_EQ(answered.status, status) << answered.body;
    EXPECT_NE(answered.body.find(why), std::string::npos) << answered.body;
    EXPECT_EQ(answered.seal, "");
    EXPECT_EQ(asked_, 0);
  }

  std::atomic<int> asked_ = 0;
  std::atomic<bool> drop_ = false;
  Log log_{LogLevel::kWarn};
  Budget memory_{16 << 20};
  PeerService service_{secret(), 2, memory_, [this](Request, Done<Reply> done) {
                         ++asked_;
                         if (!drop_) done(Reply(DoneReply{}));
                       }};
  std::unique_ptr<net::Server> server_;
  std::unique_ptr<net::Client> client_;
  Sealer sealer_{secret(), 1};
  const std::string message_ = encode_request(FindRequest{1, {"bucket", "key"}}).joined();
};

TEST_F(PeerServiceTest, ASealedMessageIsAnsweredWithASealedReply) {
  const RequestSeal sealed = seal(message_);
  const Answered answered = send(post(sealed.text(), message_));
  EXPECT_EQ(answered.status, 200);
  EXPECT_TRUE(sealer_.check_reply(sealed, answered.seal, 200, answered.body));
  EXPECT_TRUE(decode_reply(answered.body));
  EXPECT_EQ(server_->drain(net::Server::Refused::kAll, 60'000), 0u);
  EXPECT_EQ(memory_.used(), 0u);
}

TEST_F(PeerServiceTest, TheSameBytesAgainAreRefused) {
  const net::Request request = post(seal(message_).text(), message_);
  EXPECT_EQ(send(request).status, 200);
  const Answered again = send(request);
  EXPECT_EQ(again.status, 403);
  EXPECT_NE(again.body.find("was here before"), std::string::npos) << again.body;
  EXPECT_EQ(asked_, 1);
}

TEST_F(PeerServiceTest, AnotherBodyThanTheSealedOneIsRefused) {
  const std::string other = encode_request(FindRequest{2, {"bucket", "key"}}).joined();
  expect_refused(post(seal(message_).text(), other), 403, "made with another secret, or for another message");
}

TEST_F(PeerServiceTest, AnOldMessageIsRefusedWithBothTimes) {
  const int64_t old_ms = wall_ms() - kSealWindowMs - 60'000;
  const net::Request request = post(seal(message_, old_ms).text(), message_);
  expect_refused(request, 403, "set the clocks");
  expect_refused(request, 403, format_iso_date(old_ms));
}

TEST_F(PeerServiceTest, AMessageWithoutASealOrOfAnotherVersionIsRefused) {
  expect_refused(post("", message_), 403, "the message has none");
  expect_refused(post("nonsense", message_), 403, "version nonsense, this node speaks v2");
  expect_refused(post("v1" + seal(message_).text().substr(2), message_), 403,
                 "version v1, this node speaks v2");
}

TEST_F(PeerServiceTest, OtherMethodsAndQueriesAreRefused) {
  net::Request get = post(seal("").text(), "");
  get.method = "GET";
  expect_refused(get, 405, "POST");
  net::Request query = post(seal(message_).text(), message_);
  query.url.query = "more";
  expect_refused(query, 400, "no query");
}

TEST_F(PeerServiceTest, ABodyThatIsTooLargeIsRefused) {
  const std::string large(kMaxPeerMessage + 1, 'x');
  expect_refused(post(seal(large).text(), large), 413, "more than");
}

TEST_F(PeerServiceTest, AMessageForWhichThereIsNoMemoryIsRefused) {
  const Charge taken = memory_.take(memory_.limit()).take();
  expect_refused(post(seal(message_).text(), message_), 503, "under way");
}

TEST_F(PeerServiceTest, ABodyThatCannotBeDecodedIsRefusedUnderSeal) {
  const std::string bodies[] = {"", "\x01\xff", "\x09whatever", message_ + "x"};
  for (const std::string& body : bodies) {
    const RequestSeal sealed = seal(body);
    const Answered answered = send(post(sealed.text(), body));
    EXPECT_EQ(answered.status, 400);
    EXPECT_NE(answered.body.find("peer message"), std::string::npos) << answered.body;
    EXPECT_TRUE(sealer_.check_reply(sealed, answered.seal, 400, answered.body));
  }
  EXPECT_EQ(asked_, 0);
}

TEST_F(PeerServiceTest, WhereNobodyAnswersTheSenderHearsAtOnce) {
  drop_ = true;
  const RequestSeal sealed = seal(message_);
  const Answered answered = send(post(sealed.text(), message_));
  EXPECT_EQ(answered.status, 200);
  const auto reply = decode_reply(answered.body);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), Code::kUnavailable);
  EXPECT_EQ(reply.error().message(), "the node stops");
}

}  // namespace
}  // namespace millrace::cluster
