// Seals of messages between nodes: whatever parses is written as text that parses to the same; and no seal
// that is not made with the secret is accepted.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "cluster/peer_seal.h"

using namespace millrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto secret = cluster::PeerSecret::make("cluster", "a secret of the fuzzer").take();
  static cluster::SealChecker checker(secret, 2);
  static cluster::Sealer sealer(secret, 1);
  constexpr int64_t kNow = 1'790'000'000'000;
  const cluster::SealedParts parts{"POST", cluster::kPeerPath, "body"};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto seal = cluster::parse_request_seal(text);
  if (seal) {
    const auto again = cluster::parse_request_seal(seal->text());
    MR_ASSERT(again && again->text() == seal->text());
  }
  if (const auto read = checker.read(text, kNow)) MR_ASSERT(!checker.check(*read, parts, kNow));
  static const cluster::RequestSeal asked = sealer.seal(2, parts, kNow);
  MR_ASSERT(!sealer.check_reply(asked, text, 200, "reply"));
  return 0;
}
