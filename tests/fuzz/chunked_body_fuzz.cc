// Chunked bodies of any bytes, whole and split at any places: the outcome does not depend on the splitting.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "base/random.h"
#include "net/http.h"

namespace {

using namespace millrace;
using namespace millrace::net;

struct Outcome {
  std::string plain;
  size_t used = 0;
  bool failed = false;
  bool finished = false;
  bool operator==(const Outcome&) const = default;
};

Outcome decode(std::string_view body, uint64_t seed) {
  Random random(seed);
  ChunkedDecoder decoder;
  Outcome outcome;
  while (!body.empty() && !outcome.failed && !decoder.finished()) {
    std::string_view piece = body.substr(0, seed == 0 ? body.size() : 1 + random.below(9));
    body.remove_prefix(piece.size());
    while (!piece.empty() && !decoder.finished()) {
      auto step = decoder.decode(piece);
      if (!step) {
        outcome.failed = true;
        break;
      }
      MR_ASSERT(step->used > 0 && step->used <= piece.size(), step->used);
      MR_ASSERT(step->plain.size() <= step->used);
      outcome.plain += step->plain;
      outcome.used += step->used;
      piece.remove_prefix(step->used);
    }
  }
  outcome.finished = decoder.finished() && !outcome.failed;
  // How much came out before a failure may depend on the steps; that it failed may not.
  if (outcome.failed) outcome.plain.clear();
  if (outcome.failed) outcome.used = 0;
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(input) + 1, size - 1);
  const Outcome whole = decode(body, 0);
  const Outcome pieces = decode(body, input[0] + uint64_t{1});
  MR_ASSERT(whole == pieces, whole.plain.size(), pieces.plain.size(), whole.failed, pieces.failed);
  return 0;
}
