// Sends messages to other nodes and brings their answers to the strand.
#include "cluster/http_peers.h"

#include <algorithm>

#include "base/assert.h"
#include "base/clock.h"
#include "base/text.h"
#include "cluster/reasons.h"
#include "net/connect.h"

namespace millrace::cluster {

namespace {

constexpr uint64_t kMaxRefusalShown = 512;

net::ClientOptions client_options(const HttpPeersOptions& options) {
  net::ClientOptions client;
  client.connections_per_host = options.connections_per_channel;
  // The message's scope ends every wait.
  client.timeouts = {.connect_ms = 0, .first_byte_ms = 0, .io_ms = 0};
  client.most_attempts = 1;
  client.most_redirects = 0;
  return client;
}

bool is_for_home(const Request& request) {
  return std::holds_alternative<CommitRequest>(request) || std::holds_alternative<FindRequest>(request);
}

// Its answer waits for many keys, whole slices, or slices that are being made.
bool is_slow(const Request& request) {
  return std::holds_alternative<MendRequest>(request) || std::holds_alternative<CompareRequest>(request) ||
         std::holds_alternative<VerifyRequest>(request);
}

// Its answer waits for the node and its drives alone, and is small.
bool is_quick(const Request& request) {
  return std::holds_alternative<StateRequest>(request) || std::holds_alternative<ProgressRequest>(request);
}

// Whatever happened between two nodes, the outcome of the message is not known.
Error no_answer(std::string_view why) {
  return make_error(Code::kUnavailable, "{}", why);
}

}  // namespace

// Connections of one kind to all peers, on one loop. A Sealer of its own: messages of one channel do not make
// those of another look old.
struct HttpPeers::Channel {
  Channel(net::Loop& of_loop, net::Resolver& resolver, const PeerSecret& secret, uint32_t self,
          const HttpPeersOptions& options)
      : loop(of_loop),
        inbox(of_loop.inbox()),
        sealer(secret, self),
        client(of_loop, resolver, client_options(options), options.tls) {}
  net::Loop& loop;                          // touched on its own thread only
  const std::shared_ptr<net::Inbox> inbox;  // of the loop, and there when that is gone
  Sealer sealer;
  net::AsyncClient client;
};

struct HttpPeers::Message {
  uint32_t node = 0;
  ChannelKind channel = ChannelKind::kHome;
  bool quick = false;  // it tells how soon the node answers
  net::Url url;
  Request request;   // of a large message: it is encoded on the thread that sends it
  WireMessage body;  // of others
  uint64_t began_us = 0;
  uint64_t until_us = 0;
  Done<Reply> done;
};

class HttpPeers::BulkLoop {
 public:
  BulkLoop() : thread_([this] { loop_.run(); }) {}
  BulkLoop(const BulkLoop&) = delete;
  BulkLoop& operator=(const BulkLoop&) = delete;
  ~BulkLoop() {
    loop_.stop();
    thread_.join();
  }
  net::Loop& loop() { return loop_; }

 private:
  net::Loop loop_;
  std::thread thread_;
};

HttpPeers::ChannelKind HttpPeers::choose_channel(const Request& request, size_t bytes) {
  if (is_for_home(request)) return ChannelKind::kHome;
  if (is_slow(request)) return ChannelKind::kSlow;
  const auto* const read = std::get_if<ReadRequest>(&request);
  const bool is_large = bytes > kLargePeerMessage || (read != nullptr && read->size > kLargePeerMessage);
  return is_large ? ChannelKind::kLarge : ChannelKind::kHolder;
}

HttpPeers::HttpPeers(LoopStrand& strand, const Membership& membership, const PeerSecret& secret,
                     AnswerRequest own, HttpPeersOptions options)
    : strand_(strand),
      membership_(membership),
      own_(std::move(own)),
      options_(std::move(options)),
      blocks_(options_.blocks),
      bulk_(std::make_unique<BulkLoop>()) {
  const uint32_t self = membership.self();
  for (const ChannelKind kind :
       {ChannelKind::kHome, ChannelKind::kHolder, ChannelKind::kSlow, ChannelKind::kLarge}) {
    net::Loop& loop = kind == ChannelKind::kLarge ? bulk_->loop() : strand.loop();
    channels_[static_cast<size_t>(kind)] = std::make_unique<Channel>(loop, resolver_, secret, self, options_);
  }
}

HttpPeers::~HttpPeers() {
  // Its tasks refer to this.
  MR_ASSERT(strand_.is_stopped());
  bulk_.reset();
}

Result<net::Url> HttpPeers::find_url(uint32_t node) const {
  const std::shared_ptr<const Maps> maps = membership_.maps();
  const MapNode* const found = maps->back()->find_node(node);
  if (found == nullptr)
    return make_error(Code::kUnavailable, "map {} has no node {}", maps->back()->epoch(), node);
  auto url =
      net::parse_url(fmt::format("{}://{}{}", found->tls ? "https" : "http", found->address, kPeerPath));
  if (!url) {
    return make_error(Code::kUnavailable, "the address of node {} in map {} is none: {}", node,
                      maps->back()->epoch(), printable(found->address, 256));
  }
  return url;
}

void HttpPeers::call(uint32_t node, Request request, Done<Reply> done) {
  if (node == membership_.self()) {
    strand_.post([this, request = std::move(request), done = std::move(done)]() mutable {
      own_(std::move(request), std::move(done));
    });
    return;
  }
  auto message = std::make_shared<Message>();
  message->node = node;
  message->began_us = steady_us();
  message->until_us = message->began_us + options_.timeouts_us[request.index()];
  message->done = std::move(done);
  message->quick = is_quick(request);
  if (message->quick) times_.begin(node, message->began_us);
  auto url = find_url(node);
  if (!url) {
    count(*message, AnswerTimes::Outcome::kFailed);
    answer_on_strand(*message, url.take_error());
    return;
  }
  message->url = url.take();
  const auto* const prepare = std::get_if<PrepareRequest>(&request);
  if (prepare != nullptr && prepare->bytes.size() > kLargePeerMessage) {
    message->channel = ChannelKind::kLarge;
    message->request = std::move(request);
  } else {
    message->body = encode_request(request);
    message->channel = choose_channel(request, message->body.size());
  }
  Channel& channel = *channels_[static_cast<size_t>(message->channel)];
  // Posted even from the strand itself: nothing may be answered before this returns.
  channel.inbox->post([this, &channel, message] { channel.loop.spawn(deliver(channel, message)); });
}

net::Task<void> HttpPeers::deliver(Channel& channel, std::shared_ptr<Message> message) {
  if (message->body.head.empty()) message->body = encode_request(std::exchange(message->request, {}));
  auto exchanged = co_await exchange(channel, *message);
  message->body = {};
  if (message->channel != ChannelKind::kLarge) {
    message->done(std::move(exchanged));
    co_return;
  }
  answer_on_strand(*message, std::move(exchanged));
}

void HttpPeers::answer_on_strand(Message& message, Result<Reply> answer) {
  // `done` goes along: what it holds belongs to the strand.
  auto shared = std::make_shared<Result<Reply>>(std::move(answer));
  strand_.post([done = std::move(message.done), shared] { done(std::move(*shared)); });
}

net::Task<Result<Reply>> HttpPeers::exchange(Channel& channel, const Message& message) {
  const auto within = [&] { return fmt::format("asking node {}", message.node); };
  net::Cancellation scope(channel.loop, message.until_us);
  const SealedParts parts{"POST", kPeerPath, message.body.head, message.body.tail};
  const RequestSeal seal = channel.sealer.seal(message.node, parts, wall_ms());
  net::Request request;
  request.method = parts.method;
  request.url = message.url;
  request.headers.push_back({std::string(kSealHeader), seal.text()});
  request.body = net::TwoViews{message.body.head, message.body.tail};
  request.repeat = net::Repeat::kNever;
  auto response = co_await channel.client.send(std::move(request), &scope);
  Result<Bytes> body = Bytes();
  if (response) body = co_await response->read_all(blocks_, kMaxPeerMessage);
  if (!response || !body) {
    count(message, AnswerTimes::Outcome::kFailed);
    if (scope.is_cancelled()) {
      const uint64_t given_ms = (message.until_us - message.began_us) / 1000;
      co_return no_answer(fmt::format("no answer from {} within {} ms", message.url.text(), given_ms))
          .within(within());
    }
    if (!response && response.error().is(net::kNotConnected))
      co_return Error(kNotDelivered, response.error().message()).within(within());
    co_return no_answer(response ? body.error().message() : response.error().message()).within(within());
  }
  const std::string* const sealed = response->find_header(kSealHeader);
  Status checked =
      channel.sealer.check_reply(seal, sealed == nullptr ? "" : *sealed, response->status(), *body);
  count(message, checked ? AnswerTimes::Outcome::kAnswered : AnswerTimes::Outcome::kFailed);
  const auto shown = [&] { return printable(trim(body->view(), "\r\n "), kMaxRefusalShown); };
  if (!checked && response->status() != 200)
    co_return no_answer(fmt::format("it refused, {}: {}", response->status(), shown())).within(within());
  if (!checked) {
    co_return no_answer(checked.error().message()).with_hint(checked.error().hint()).within(within());
  }
  if (response->status() != 200)
    co_return no_answer(fmt::format("it cannot answer, {}: {}", response->status(), shown()))
        .within(within());
  co_return decode_reply(*body);
}

void HttpPeers::count(const Message& message, AnswerTimes::Outcome outcome) {
  if (message.quick) times_.end(message.node, message.began_us, steady_us(), outcome);
  const MutexLock lock(mutex_);
  Counts& counts = counts_[message.node];
  ++(outcome == AnswerTimes::Outcome::kAnswered ? counts.answers : counts.failures);
}

bool HttpPeers::is_grey(uint32_t node) const {
  return times_.is_grey(node, steady_us());
}

void HttpPeers::start_pings() {
  strand_.after(kPingUs, [this] { ping(); });
}

void HttpPeers::ping() {
  const std::shared_ptr<const Maps> maps = membership_.maps();
  std::vector<uint32_t> others;
  for (const MapNode& node : maps->back()->nodes()) {
    if (node.is_alive() && node.number != membership_.self()) others.push_back(node.number);
  }
  for (size_t i = 0; i < std::min(others.size(), kMostPings); ++i)
    call(others[ping_turn_++ % others.size()], ProgressRequest{}, [](Result<Reply>) {});
  start_pings();
}

std::vector<HttpPeers::Reading> HttpPeers::read() const {
  std::vector<Reading> readings;
  {
    const MutexLock lock(mutex_);
    for (const auto& [node, counts] : counts_)
      readings.push_back({node, counts.answers, counts.failures, {}});
  }
  for (Reading& reading : readings) reading.times = times_.read(reading.node, steady_us());
  return readings;
}

}  // namespace millrace::cluster
