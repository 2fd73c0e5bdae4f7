// HttpPeers: the other nodes of a real cluster, by HTTP: POST /-/peer, sealed (cluster/peer_seal.h).
//
// A message is sent at most once: no retry and no redirect. A kept connection that its peer closed meanwhile
// is replaced before the first byte is written; later nobody could say whether the message arrived.
//
// Each peer has four channels, with connections of their own. A request to a home waits for the marks that
// the home sends: with one channel, two homes whose connections are all taken by each other's commits would
// both wait in vain. What may take minutes to be answered takes no connection from marks and peeks. Large
// messages, and those with large answers, have a loop and thread of their own, so that hashing and sending
// them delays nobody.
//
// call() may be called by any thread. Answers come on the strand; none comes once it is stopped. The strand
// is stopped before this goes away; membership outlives it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/blocks.h"
#include "base/mutex.h"
#include "cluster/answer_times.h"
#include "cluster/loop_strand.h"
#include "cluster/message.h"
#include "cluster/peer_seal.h"
#include "cluster/peers.h"
#include "net/async_client.h"
#include "net/client_tls.h"

namespace millrace::cluster {

inline constexpr size_t kMaxPeerMessage = 8 << 20;     // a request or a reply
inline constexpr size_t kLargePeerMessage = 64 << 10;  // above it a message goes beside the others

// Answers a request: once, from any thread unless said otherwise.
using AnswerRequest = std::function<void(Request, Done<Reply>)>;

struct HttpPeersOptions {
  HttpPeersOptions() { timeouts_us.fill(5'000'000); }
  // By kind, at the positions of Request. From call() to the last byte of the answer.
  std::array<uint64_t, std::variant_size_v<Request>> timeouts_us;
  size_t connections_per_channel = 16;        // to one peer
  std::shared_ptr<const net::ClientTls> tls;  // for nodes that speak TLS; null: they cannot be reached
  Blocks blocks;                              // that answers arrive in
};

class HttpPeers final : public Peers {
 public:
  // `own` answers the calls to this node itself. It is called on the strand and answers there.
  HttpPeers(LoopStrand& strand, const Membership& membership, const PeerSecret& secret, AnswerRequest own,
            HttpPeersOptions options = {});
  ~HttpPeers() override;

  void call(uint32_t node, Request request, Done<Reply> done) override;
  // By messages that wait for nobody else.
  bool is_grey(uint32_t node) const override;
  // Asks every other node something small twice a second, so that a grey one is known before somebody needs
  // it.
  void start_pings();

  // How the others answer; any thread.
  struct Reading {
    uint32_t node = 0;
    uint64_t answers = 0;
    uint64_t failures = 0;  // no answer, or none from a node of the cluster
    AnswerTimes::Reading times;
  };
  std::vector<Reading> read() const;

 private:
  enum class ChannelKind : uint8_t { kHome, kHolder, kSlow, kLarge };
  static constexpr size_t kChannels = 4;
  struct Channel;
  struct Message;
  class BulkLoop;

  static ChannelKind choose_channel(const Request& request, size_t bytes);
  Result<net::Url> find_url(uint32_t node) const;
  net::Task<void> deliver(Channel& channel, std::shared_ptr<Message> message);
  net::Task<Result<Reply>> exchange(Channel& channel, const Message& message);
  void answer_on_strand(Message& message, Result<Reply> answer);
  void count(const Message& message, AnswerTimes::Outcome outcome);
  void ping();

  static constexpr uint64_t kPingUs = 500'000;
  static constexpr size_t kMostPings = 16;  // at once; of more nodes each has its turn

  LoopStrand& strand_;
  const Membership& membership_;
  const AnswerRequest own_;
  const HttpPeersOptions options_;
  Blocks blocks_;
  net::Resolver resolver_;
  // At the positions of ChannelKind. They outlive the loop below.
  std::array<std::unique_ptr<Channel>, kChannels> channels_;
  std::unique_ptr<BulkLoop> bulk_;

  AnswerTimes times_{AnswerTimes::Limits{}};
  size_t ping_turn_ = 0;  // on the strand
  struct Counts {
    uint64_t answers = 0;
    uint64_t failures = 0;
  };
  mutable Mutex mutex_;
  std::map<uint32_t, Counts> counts_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::cluster
