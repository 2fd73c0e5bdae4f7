// PeerService: answers the messages of other nodes: POST /-/peer.
//
// The seal is the sender's right to ask: a message without a good one is refused before it is decoded, and
// nothing else is asked of the sender. Thread-safe; outlives the connections that it serves.
#pragma once

#include <string>
#include <string_view>

#include "base/blocks.h"
#include "base/buffer.h"
#include "base/result.h"
#include "cluster/http_peers.h"
#include "cluster/message.h"
#include "cluster/peer_seal.h"
#include "net/connection.h"
#include "net/task.h"

namespace millrace::cluster {

class PeerService {
 public:
  // `answer` may be called by any thread and answers from any. Where it drops the callback, the sender hears
  // that at once. `memory` is what messages under way may take.
  PeerService(PeerSecret secret, uint32_t self, Budget& memory, AnswerRequest answer, Blocks blocks = {});

  // Sends exactly one response to a request for /-/peer.
  net::Task<Status> serve(net::Connection& connection);

 private:
  net::Task<Result<Reply>> answer(net::Loop& loop, Request request);

  SealChecker checker_;
  Budget& memory_;
  Blocks blocks_;
  const AnswerRequest answer_;
};

}  // namespace millrace::cluster
