// Answers messages of other nodes: seal, decoding, answer, seal.
#include "cluster/peer_service.h"

#include <atomic>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "net/loop.h"

namespace millrace::cluster {

namespace {

net::Task<Status> refuse(net::Connection& connection, int status, std::string text, std::string seal = "") {
  net::HeadBuilder& head = connection.start(status);
  head.add("Content-Type", "text/plain; charset=utf-8");
  if (status == 405) head.add("Allow", "POST");
  if (!seal.empty()) head.add(kSealHeader, seal);
  co_return co_await connection.send(text);
}

std::string text_of(const Error& error) {
  return error.hint().empty() ? fmt::format("{}\n", error.message())
                              : fmt::format("{}\n{}\n", error.message(), error.hint());
}

// Calls `done` once: with the answer, or when nobody can give one any more.
class Pending {
 public:
  explicit Pending(Done<Reply> done) : done_(std::move(done)) {}
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() { give(make_error(Code::kUnavailable, "the node stops")); }
  void give(Result<Reply> reply) {
    if (!given_.exchange(true)) done_(std::move(reply));
  }

 private:
  const Done<Reply> done_;
  std::atomic<bool> given_ = false;
};

}  // namespace

PeerService::PeerService(PeerSecret secret, uint32_t self, Budget& memory, AnswerRequest answer,
                         Blocks blocks)
    : checker_(std::move(secret), self),
      memory_(memory),
      blocks_(std::move(blocks)),
      answer_(std::move(answer)) {}

net::Task<Result<Reply>> PeerService::answer(net::Loop& loop, Request request) {
  auto shared = std::make_shared<Request>(std::move(request));
  std::function<void(Done<Reply>)> start = [this, shared](Done<Reply> done) {
    const auto pending = std::make_shared<Pending>(std::move(done));
    answer_(std::move(*shared), [pending](Result<Reply> reply) { pending->give(std::move(reply)); });
  };
  shared.reset();
  co_return co_await net::await_callback<Result<Reply>>(loop, std::move(start));
}

net::Task<Status> PeerService::serve(net::Connection& connection) {
  const net::RequestHead& head = connection.request();
  if (head.method != "POST") co_return co_await refuse(connection, 405, "messages are sent with POST\n");
  if (!head.query.empty()) co_return co_await refuse(connection, 400, "messages have no query\n");
  auto seal = checker_.read(head.get(kSealHeader), wall_ms());
  if (!seal) co_return co_await refuse(connection, 403, text_of(seal.error()));
  Charge charge;
  auto body = co_await connection.read_whole_body(blocks_, kMaxPeerMessage, memory_, charge);
  if (!body) co_return co_await refuse(connection, http_status(body.error().code()), text_of(body.error()));
  const SealedParts parts{"POST", kPeerPath, *body};
  const auto checked = checker_.check(*seal, parts, wall_ms());
  if (!checked) co_return co_await refuse(connection, 403, text_of(checked.error()));
  auto request = decode_request(*body);
  *body = {};
  if (!request) {
    const std::string text = text_of(request.error());
    co_return co_await refuse(connection, 400, text, checker_.seal_reply(*seal, 400, text));
  }
  auto reply = co_await answer(connection.loop(), request.take());
  const WireMessage encoded = encode_reply(reply);
  net::HeadBuilder& answer_head = connection.start(200);
  answer_head.add("Content-Type", "application/octet-stream");
  answer_head.add(kSealHeader, checker_.seal_reply(*seal, 200, encoded.head, encoded.tail));
  co_return co_await connection.send(encoded.head, encoded.tail);
}

}  // namespace millrace::cluster
