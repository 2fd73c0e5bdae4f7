// Messages of other nodes on their way through the gateway, past the rights of clients.
#include "node/administration.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/testing/temporary_directory.h"
#include "base/workers.h"
#include "gateway/shards.h"
#include "net/client.h"
#include "store/quota_objects.h"

namespace millrace::node {
namespace {

cluster::PeerSecret secret() {
  return cluster::PeerSecret::make("c1", "0123456789abcdef").take();
}

std::unique_ptr<store::LocalStore> open_store(const std::string& state, Log& log) {
  store::StoreOptions options;
  options.state_directory = state;
  return store::LocalStore::open(options, log).take();
}

class OneKey final : public gateway::KeySource {
 public:
  OneKey() {
    gateway::KeyRing ring;
    ring.add(gateway::make_key());
    ring_ = std::make_shared<const gateway::KeyRing>(std::move(ring));
  }
  std::shared_ptr<const gateway::KeyRing> current() override { return ring_; }

 private:
  std::shared_ptr<const gateway::KeyRing> ring_;
};

// A node whose clients need keys, with or without a cluster.
class Served {
 public:
  enum class Cluster { kNone, kNodeTwo };
  explicit Served(Cluster cluster)
      : administration_({*store_, store_->objects(), quotas_.quotas(), nullptr,
                         cluster == Cluster::kNodeTwo ? &peers_ : nullptr}),
        gateway_({store_->objects(), store_->memory(), indexes_, workers_, workers_, log_}, keys_,
                 administration_, {}) {
    net::ServerOptions options;
    options.listen = net::parse_listen_address("127.0.0.1:0").take();
    options.threads = 1;
    server_ = net::Server::open(options, gateway_, log_).take();
    administration_.attach(*server_, gateway_.meters());
    server_->run();
  }
  ~Served() {
    server_->stop();
    workers_.stop();
  }

  struct Answered {
    int status = 0;
    std::string body;
  };
  Answered post(const std::string& path, const std::string& seal) {
    net::Request request;
    request.method = "POST";
    request.url = net::parse_url(fmt::format("http://127.0.0.1:{}{}", server_->port(), path)).take();
    if (!seal.empty()) request.headers.emplace_back(cluster::kSealHeader, seal);
    request.body = std::string_view(message_);
    auto response = client_->send(request);
    if (!response) return {0, response.error().message()};
    auto body = response->read_all(1 << 20);
    return {response->status(), body ? body.take() : body.error().message()};
  }
  std::string seal() { return sealer_.seal(2, {"POST", cluster::kPeerPath, message_}, wall_ms()).text(); }

 private:
  const std::string message_ = encode_request(cluster::FindRequest{1, {"bucket", "key"}}).joined();
  const testing::TemporaryDirectory directory_;
  Log log_{LogLevel::kWarn};
  std::unique_ptr<store::LocalStore> store_ = open_store(directory_.path("state"), log_);
  Workers workers_{1};
  store::QuotaObjects quotas_{store_->objects(), {[] { return size_t{1}; }, [] { return steady_us(); }}};
  gateway::ShardIndexes indexes_{store_->objects(), store_->memory()};
  OneKey keys_;
  cluster::PeerService peers_{
      secret(), 2, store_->memory().documents,
      [](cluster::Request, store::Done<cluster::Reply> done) { done(cluster::Reply(cluster::DoneReply{})); }};
  NodeAdministration administration_;
  gateway::Gateway gateway_;
  std::unique_ptr<net::Server> server_;
  std::unique_ptr<net::Client> client_ = net::Client::make({}).take();
  cluster::Sealer sealer_{secret(), 1};
};

TEST(NodeAdministrationTest, ASealedMessageNeedsNoKey) {
  Served node(Served::Cluster::kNodeTwo);
  EXPECT_EQ(node.post("/-/scrub", node.seal()).status, 403);
  const Served::Answered answered = node.post("/-/peer", node.seal());
  EXPECT_EQ(answered.status, 200) << answered.body;
  EXPECT_TRUE(cluster::decode_reply(answered.body));
  const Served::Answered refused = node.post("/-/peer", "");
  EXPECT_EQ(refused.status, 403);
  EXPECT_NE(refused.body.find("the message has none"), std::string::npos) << refused.body;
  EXPECT_EQ(node.post("/-/peer?more", node.seal()).status, 400);
}

TEST(NodeAdministrationTest, WithoutAClusterThereIsNobodyToTalkTo) {
  Served node(Served::Cluster::kNone);
  const Served::Answered answered = node.post("/-/peer", node.seal());
  EXPECT_EQ(answered.status, 404);
  EXPECT_NE(answered.body.find("belongs to no cluster"), std::string::npos) << answered.body;
}

}  // namespace
}  // namespace millrace::node
