// Nodes that talk to each other over loopback, well, badly, and with others in between.
#include "cluster/http_peers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/log.h"
#include "base/testing/temporary_directory.h"
#include "cluster/peer_service.h"
#include "cluster/reasons.h"
#include "net/server.h"
#include "net/testing/script_server.h"
#include "net/tls.h"
#include "store/waiting.h"

namespace millrace::cluster {
namespace {

using testing::ScriptServer;

const ObjectName kName{"bucket", "key"};

PeerSecret secret(const std::string& cluster = "c1", const std::string& text = "0123456789abcdef") {
  return PeerSecret::make(cluster, text).take();
}

// A map of nodes 1, 2, … at these addresses; behind https:// they speak TLS.
class FixedMembership final : public Membership {
 public:
  FixedMembership(uint32_t self, const std::vector<std::string>& addresses) : self_(self) {
    std::vector<MapNode> nodes;
    for (const std::string& address : addresses) {
      MapNode node;
      node.number = static_cast<uint32_t>(nodes.size() + 1);
      node.id = fmt::format("n{}", node.number);
      constexpr std::string_view kTls = "https://";
      node.tls = address.starts_with(kTls);
      node.address = node.tls ? address.substr(kTls.size()) : address;
      nodes.push_back(node);
    }
    maps_ = std::make_shared<const Maps>(Maps{std::make_shared<const Map>("c1", 1, 1, nodes)});
  }
  uint32_t self() const override { return self_; }
  std::shared_ptr<const Maps> maps() const override { return maps_; }
  bool has_lease() const override { return true; }
  void look_again() override {}
  void note_walked(Walked) override {}
  Result<Redundancy> redundancy(const std::string&) const override { return Redundancy(); }

 private:
  const uint32_t self_;
  std::shared_ptr<const Maps> maps_;
};

// A server that gives all its requests to a PeerService.
class Receiver final : public net::Handler {
 public:
  Receiver(const PeerSecret& secret, uint32_t self, AnswerRequest answer,
           net::CertificateFiles* certificates = nullptr)
      : service_(secret, self, memory_, std::move(answer)) {
    net::ServerOptions options;
    options.listen = net::parse_listen_address("127.0.0.1:0").take();
    options.threads = 1;
    options.certificates = certificates;
    server_ = net::Server::open(options, *this, log_).take();
    server_->run();
  }
  ~Receiver() override { server_->stop(); }
  net::Task<Status> handle(net::Connection& connection) override { return service_.serve(connection); }
  std::string address() const { return fmt::format("127.0.0.1:{}", server_->port()); }

 private:
  Log log_{LogLevel::kWarn};
  Budget memory_{64 << 20};
  PeerService service_;
  std::unique_ptr<net::Server> server_;
};

// A strand with peers, as node `self`.
struct Sender {
  Sender(uint32_t self, const std::vector<std::string>& addresses, const PeerSecret& own_secret = secret(),
         const HttpPeersOptions& options = {}, AnswerRequest own = refuse_all)
      : membership(self, addresses), peers(strand, membership, own_secret, std::move(own), options) {}
  ~Sender() { strand.stop(); }
  Result<Reply> ask(uint32_t node, Request request = FindRequest{1, kName}) {
    return store::wait_for<Reply>(
        [&](Done<Reply> done) { peers.call(node, std::move(request), std::move(done)); });
  }
  static void refuse_all(Request, Done<Reply> done) { done(make_error(Code::kInvalid, "not expected")); }

  LoopStrand strand;
  FixedMembership membership;
  HttpPeers peers;
};

// An epoch, or how many bytes came, as an answer that can be told from others.
void answer_with_number(Request request, Done<Reply> done) {
  store::Record record;
  if (const auto* find = std::get_if<FindRequest>(&request)) record.modified_ms = find->epoch;
  if (const auto* prepare = std::get_if<PrepareRequest>(&request))
    record.modified_ms = static_cast<int64_t>(prepare->bytes.size());
  done(Reply(ObjectReply{record}));
}

int64_t number_in(const Result<Reply>& reply) {
  if (!reply) {
    ADD_FAILURE() << reply.error().message();
    return 0;
  }
  return std::get<ObjectReply>(*reply).record->modified_ms;
}

// `reason`: null where nobody knows whether the message arrived.
std::string no_answer_in(const Result<Reply>& reply, const Reason* reason = nullptr) {
  if (reply) return "an answer";
  EXPECT_EQ(reply.error().code(), Code::kUnavailable);
  EXPECT_EQ(reply.error().reason(), reason);
  return reply.error().message() + " | " + reply.error().hint();
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(HttpPeersTest, TwoNodesAskEachOther) {
  Receiver first(secret(), 1, answer_with_number);
  Receiver second(secret(), 2, answer_with_number);
  Sender from_first(1, {first.address(), second.address()});
  Sender from_second(2, {first.address(), second.address()});
  for (uint32_t i = 1; i <= 20; ++i) {
    EXPECT_EQ(number_in(from_first.ask(2, FindRequest{i, kName})), i);
    EXPECT_EQ(number_in(from_second.ask(1, FindRequest{100 + i, kName})), 100 + i);
  }
  PrepareRequest large{1, kName, {}, std::string(1 << 20, 'x')};
  EXPECT_EQ(number_in(from_first.ask(2, large)), 1 << 20);
  PrepareRequest small{1, kName, {}, std::string(1000, 'x')};
  EXPECT_EQ(number_in(from_first.ask(2, small)), 1000);
}

TEST(HttpPeersTest, NodesWithCertificatesTalkUnderTls) {
  const testing::TemporaryDirectory directory;
  const auto paths = net::make_self_signed(directory.path());
  ASSERT_TRUE(paths);
  const auto certificates =
      net::CertificateFiles::open(*paths, [](const Error& error) { ADD_FAILURE() << error.message(); });
  ASSERT_TRUE(certificates);
  Receiver receiver(secret(), 2, answer_with_number, certificates->get());
  const std::vector<std::string> addresses = {"127.0.0.1:1", "https://" + receiver.address()};
  HttpPeersOptions options;
  options.tls = net::ClientTls::make(net::Verify::kPeer, paths->certificate).take();
  Sender sender(1, addresses, secret(), options);
  EXPECT_EQ(number_in(sender.ask(2, FindRequest{7, kName})), 7);
  EXPECT_EQ(number_in(sender.ask(2, PrepareRequest{1, kName, {}, std::string(1 << 20, 'x')})), 1 << 20);
  Sender in_the_clear(1, {"127.0.0.1:1", receiver.address()}, secret(), options);
  EXPECT_NE(no_answer_in(in_the_clear.ask(2)), "an answer");
  Sender without_authorities(1, addresses);
  EXPECT_NE(no_answer_in(without_authorities.ask(2)), "an answer");
  HttpPeersOptions distrusting;
  distrusting.tls = net::ClientTls::make(net::Verify::kPeer, "").take();
  Sender wary(1, addresses, secret(), distrusting);
  EXPECT_NE(no_answer_in(wary.ask(2)), "an answer");
}

TEST(HttpPeersTest, AnErrorArrivesWithItsReason) {
  Receiver receiver(secret(), 2, [](Request, Done<Reply> done) {
    done(make_error(kOldEpoch, "epoch 1 is over").with_hint("look again"));
  });
  Sender sender(1, {"127.0.0.1:1", receiver.address()});
  const auto reply = sender.ask(2);
  ASSERT_FALSE(reply);
  EXPECT_TRUE(reply.error().is(kOldEpoch));
  EXPECT_EQ(reply.error().message(), "epoch 1 is over");
  EXPECT_EQ(reply.error().hint(), "look again");
}

TEST(HttpPeersTest, AnswersComeOnTheStrandAfterTheCallReturned) {
  Receiver receiver(secret(), 2, answer_with_number);
  Sender sender(1, {"127.0.0.1:1", receiver.address()}, secret(), {}, answer_with_number);
  const std::vector<std::pair<uint32_t, Request>> calls = {
      {1, FindRequest{1, kName}},
      {2, FindRequest{1, kName}},
      {2, PrepareRequest{1, kName, {}, std::string(100'000, 'x')}},
      {3, FindRequest{1, kName}}};
  for (const auto& [node, request] : calls) {
    std::promise<std::thread::id> answered_on;
    std::promise<std::thread::id> strand_is;
    bool returned = false;
    sender.strand.post([&] {
      strand_is.set_value(std::this_thread::get_id());
      sender.peers.call(node, request, [&](Result<Reply>) {
        EXPECT_TRUE(returned);
        answered_on.set_value(std::this_thread::get_id());
      });
      returned = true;
    });
    EXPECT_EQ(answered_on.get_future().get(), strand_is.get_future().get());
  }
}

TEST(HttpPeersTest, ACallToTheOwnNodeNeedsNoConnection) {
  Sender sender(1, {"127.0.0.1:1"}, secret(), {}, answer_with_number);
  EXPECT_EQ(number_in(sender.ask(1, FindRequest{7, kName})), 7);
  EXPECT_TRUE(sender.peers.read().empty());
}

TEST(HttpPeersTest, ANodeThatTheMapDoesNotHaveCannotBeAsked) {
  Sender sender(1, {"127.0.0.1:1", "no address at all"});
  EXPECT_HAS(no_answer_in(sender.ask(3)), "map 1 has no node 3");
  EXPECT_HAS(no_answer_in(sender.ask(2)), "the address of node 2");
}

TEST(HttpPeersTest, WhoeverHasAnotherSecretIsRefusedAndSaysWhy) {
  std::atomic<int> asked = 0;
  Receiver receiver(secret(), 2, [&](Request, Done<Reply> done) {
    ++asked;
    done(Reply(DoneReply{}));
  });
  const std::vector<std::string> addresses = {"127.0.0.1:1", receiver.address(), receiver.address()};
  Sender stranger(1, addresses, secret("c1", "another secret text"));
  EXPECT_HAS(no_answer_in(stranger.ask(2)), "made with another secret");
  Sender neighbour(1, addresses, secret("c2"));
  EXPECT_HAS(no_answer_in(neighbour.ask(2)), "of cluster c2, this node of c1");
  Sender lost(1, addresses);
  EXPECT_HAS(no_answer_in(lost.ask(3)), "for node 3, this is node 2");
  EXPECT_EQ(asked, 0);
}

TEST(HttpPeersTest, APeerThatIsNotThereIsAFailureThatIsCounted) {
  Receiver receiver(secret(), 2, answer_with_number);
  // Nobody listens on port 1.
  Sender sender(1, {"127.0.0.1:9", receiver.address(), "127.0.0.1:1"});
  EXPECT_HAS(no_answer_in(sender.ask(3), &kNotDelivered), "asking node 3");
  number_in(sender.ask(2));
  number_in(sender.ask(2));
  EXPECT_TRUE(sender.ask(2, ProgressRequest{}));
  EXPECT_FALSE(sender.ask(3, ProgressRequest{}));
  const auto readings = sender.peers.read();
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_EQ(readings[0].node, 2u);
  EXPECT_EQ(readings[0].answers, 3u);
  EXPECT_EQ(readings[0].failures, 0u);
  EXPECT_GT(readings[0].times.mean_us, 0u);
  EXPECT_FALSE(sender.peers.is_grey(2));
  EXPECT_EQ(readings[1].node, 3u);
  EXPECT_EQ(readings[1].answers, 0u);
  EXPECT_EQ(readings[1].failures, 2u);
  EXPECT_TRUE(sender.peers.is_grey(3));
}

std::string address_of(const ScriptServer& server) {
  const std::string url = server.url("");
  return url.substr(url.find("//") + 2);
}

TEST(HttpPeersTest, APeerThatHangsIsGivenUpInTime) {
  ScriptServer hanging([](const ScriptServer::Asked&) { return ScriptServer::Answer{""}; });
  HttpPeersOptions options;
  options.timeouts_us.fill(3'600'000'000);
  options.timeouts_us[Request(FindRequest()).index()] = 20'000;
  Sender sender(1, {"127.0.0.1:1", address_of(hanging)}, secret(), options);
  EXPECT_HAS(no_answer_in(sender.ask(2)), "within 20 ms");
  EXPECT_EQ(sender.peers.read().at(0).failures, 1u);
}

TEST(HttpPeersTest, AMessageIsSentOnceWhateverBecomesOfIt) {
  ScriptServer closing([](const ScriptServer::Asked&) { return ScriptServer::Answer{"", true}; });
  ScriptServer busy([](const ScriptServer::Asked&) { return ScriptServer::status(503, "busy"); });
  ScriptServer moved([&](const ScriptServer::Asked&) {
    return ScriptServer::status(307, "", "Location: " + busy.url("/-/peer") + "\r\n");
  });
  Sender sender(1, {"127.0.0.1:1", address_of(closing), address_of(busy), address_of(moved)});
  EXPECT_NE(no_answer_in(sender.ask(2)), "an answer");
  EXPECT_HAS(no_answer_in(sender.ask(3)), "503: busy");
  EXPECT_HAS(no_answer_in(sender.ask(4)), "307");
  EXPECT_EQ(closing.asked().size(), 1u);
  EXPECT_EQ(busy.asked().size(), 1u);
  EXPECT_EQ(moved.asked().size(), 1u);
}

// What a node would answer, with something changed on its way.
ScriptServer::Answer sealed_answer(const ScriptServer::Asked& asked, int status, std::string body,
                                   const std::string& sent_body) {
  const SealChecker checker(secret(), 2);
  const auto seal = parse_request_seal(asked.header(std::string(kSealHeader)));
  if (!seal) return ScriptServer::status(500, seal.error().message());
  const std::string header =
      fmt::format("{}: {}\r\n", kSealHeader, checker.seal_reply(*seal, status, std::move(body)));
  return ScriptServer::ok(sent_body, header);
}

TEST(HttpPeersTest, AReplyThatWasChangedIsNone) {
  const std::string done = encode_reply(Reply(DoneReply{})).joined();
  const std::string nothing = encode_reply(Reply(ObjectReply{})).joined();
  ScriptServer good([&](const ScriptServer::Asked& a) { return sealed_answer(a, 200, done, done); });
  ScriptServer other_body([&](const ScriptServer::Asked& a) { return sealed_answer(a, 200, done, nothing); });
  ScriptServer other_status([&](const ScriptServer::Asked& a) { return sealed_answer(a, 400, done, done); });
  ScriptServer open([&](const ScriptServer::Asked&) { return ScriptServer::ok(done); });
  Sender sender(1, {"127.0.0.1:1", address_of(good), address_of(other_body), address_of(other_status),
                    address_of(open)});
  EXPECT_TRUE(sender.ask(2));
  EXPECT_HAS(no_answer_in(sender.ask(3)), "not from a node that knows");
  EXPECT_HAS(no_answer_in(sender.ask(4)), "not from a node that knows");
  EXPECT_HAS(no_answer_in(sender.ask(5)), "the answer has none");
}

TEST(HttpPeersTest, AReplyThatIsTooLargeIsNone) {
  ScriptServer large([](const ScriptServer::Asked&) {
    return ScriptServer::Answer{
        "HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + std::string(9'000'000, 'x'), true};
  });
  Sender sender(1, {"127.0.0.1:1", address_of(large)});
  EXPECT_NE(no_answer_in(sender.ask(2)), "an answer");
}

// Keeps the answers to some requests back until it is told to give them.
class Holding {
 public:
  void keep(Done<Reply> done) {
    const MutexLock lock(mutex_);
    kept_.push_back(std::move(done));
    changed_.notify_all();
  }
  void wait_for(size_t count) {
    UniqueLock lock(mutex_);
    changed_.wait(lock, [&]() MR_REQUIRES(mutex_) { return kept_.size() >= count; });
  }
  void give_all() {
    std::vector<Done<Reply>> kept;
    {
      const MutexLock lock(mutex_);
      kept.swap(kept_);
    }
    for (const Done<Reply>& done : kept) done(Reply(DoneReply{}));
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Done<Reply>> kept_ MR_GUARDED_BY(mutex_);
};

// Sends more messages than there are connections, and waits until every connection is taken.
struct Crowd {
  Crowd(Sender& sender, Holding& holding, const Request& request, size_t connections) {
    for (size_t i = 0; i < 2 * connections; ++i) {
      sender.peers.call(2, request, [this](Result<Reply> reply) {
        EXPECT_TRUE(reply) << reply.error().message();
        ++answered;
      });
    }
    holding.wait_for(connections);
  }
  std::atomic<size_t> answered = 0;
};

HttpPeersOptions patient(size_t connections) {
  HttpPeersOptions options;
  options.connections_per_channel = connections;
  options.timeouts_us.fill(3'600'000'000);
  return options;
}

TEST(HttpPeersTest, LargeMessagesDoNotHoldUpSmallOnes) {
  Holding holding;
  std::atomic<bool> held = true;
  Receiver receiver(secret(), 2, [&](Request request, Done<Reply> done) {
    if (held && std::holds_alternative<PrepareRequest>(request)) return holding.keep(std::move(done));
    done(Reply(DoneReply{}));
  });
  Sender sender(1, {"127.0.0.1:1", receiver.address()}, secret(), patient(2));
  Crowd crowd(sender, holding, PrepareRequest{1, kName, {}, std::string(1 << 20, 'x')}, 2);
  EXPECT_TRUE(sender.ask(2, CompleteRequest{1, kName, {}}));
  EXPECT_TRUE(sender.ask(2, FindRequest{1, kName}));
  EXPECT_EQ(crowd.answered, 0u);
  held = false;
  holding.give_all();
  while (crowd.answered < 4) std::this_thread::yield();
}

TEST(HttpPeersTest, CommitsThatWaitForMarksDoNotHoldUpTheMarks) {
  Holding holding;
  std::atomic<bool> held = true;
  Receiver receiver(secret(), 2, [&](Request request, Done<Reply> done) {
    if (held && std::holds_alternative<CommitRequest>(request)) return holding.keep(std::move(done));
    done(Reply(DoneReply{}));
  });
  Sender sender(1, {"127.0.0.1:1", receiver.address()}, secret(), patient(2));
  Crowd crowd(sender, holding, CommitRequest{CommitRequest::Kind::kPut, 1, kName, {}, {}}, 2);
  EXPECT_TRUE(sender.ask(2, MarkRequest{1, 1, kName, {}, false}));
  EXPECT_EQ(crowd.answered, 0u);
  held = false;
  holding.give_all();
  while (crowd.answered < 4) std::this_thread::yield();
}

TEST(HttpPeersTest, MendingAndVerifyingHoldUpNeitherMarksNorReads) {
  const std::vector<Request> slow = {MendRequest{1, kName, 0}, VerifyRequest{1, kName, "write", 0, 0},
                                     CompareRequest{1, 1, {}}};
  for (const Request& request : slow) {
    Holding holding;
    std::atomic<bool> held = true;
    Receiver receiver(secret(), 2, [&](const Request& asked, Done<Reply> done) {
      if (held && asked.index() == request.index()) return holding.keep(std::move(done));
      done(Reply(DoneReply{}));
    });
    Sender sender(1, {"127.0.0.1:1", receiver.address()}, secret(), patient(2));
    Crowd crowd(sender, holding, request, 2);
    EXPECT_TRUE(sender.ask(2, MarkRequest{1, 1, kName, {}, false}));
    EXPECT_TRUE(sender.ask(2, StateRequest{StateRequest::Purpose::kPeek, 1, kName, {1}}));
    EXPECT_TRUE(sender.ask(2, FindRequest{1, kName}));
    EXPECT_TRUE(sender.ask(2, ReadRequest{1, "write", 0, 0, 1 << 20}));
    EXPECT_EQ(crowd.answered, 0u);
    held = false;
    holding.give_all();
    while (crowd.answered < 4) std::this_thread::yield();
  }
}

TEST(HttpPeersTest, StoppingForgetsMessagesUnderWay) {
  Holding holding;
  Receiver receiver(secret(), 2, [&](Request, Done<Reply> done) { holding.keep(std::move(done)); });
  auto token = std::make_shared<int>();
  {
    Sender sender(1, {"127.0.0.1:1", receiver.address()}, secret(), patient(2));
    for (const Request& request :
         {Request(FindRequest{1, kName}), Request(PrepareRequest{1, kName, {}, std::string(100'000, 'x')})})
      sender.peers.call(2, request, [token](Result<Reply>) { ADD_FAILURE() << "answered"; });
    holding.wait_for(2);
  }
  EXPECT_EQ(token.use_count(), 1);
  holding.give_all();
}

}  // namespace
}  // namespace millrace::cluster
