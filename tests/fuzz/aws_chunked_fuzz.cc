// Bodies of any bytes, whole and split at any places: the outcome does not depend on the splitting.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/random.h"
#include "net/aws_chunked.h"

namespace {

using namespace millrace;
using namespace millrace::net;

struct Outcome {
  std::string plain;
  bool failed = false;
  bool finished = false;
  std::vector<HeaderField> trailers;
  bool operator==(const Outcome&) const = default;
};

Outcome decode(std::string_view body, AwsChunkedDecoder decoder, uint64_t seed) {
  Random random(seed);
  Outcome outcome;
  while (!body.empty() && !outcome.failed) {
    std::string_view piece = body.substr(0, seed == 0 ? body.size() : 1 + random.below(20));
    body.remove_prefix(piece.size());
    while (!piece.empty()) {
      auto step = decoder.decode(piece);
      if (!step) {
        outcome.failed = true;
        break;
      }
      MR_ASSERT(step->used > 0 && step->used <= piece.size(), step->used);
      MR_ASSERT(step->plain.empty() || step->plain.data() == piece.data());
      outcome.plain += step->plain;
      piece.remove_prefix(step->used);
    }
  }
  outcome.finished = decoder.finished() && !outcome.failed;
  if (outcome.failed) outcome.plain.clear();
  if (!outcome.failed) outcome.trailers = decoder.trailers();
  return outcome;
}

AwsChunkedDecoder make_decoder(uint8_t choice) {
  std::optional<ChunkSigner> signer;
  if ((choice & 1) != 0) {
    SignatureClaim claim;
    claim.date = "20130524T000000Z";
    claim.scope = "20130524/us-east-1/s3/aws4_request";
    signer.emplace(claim, "secret");
  }
  using Trailers = AwsChunkedDecoder::Trailers;
  return {std::move(signer), (choice & 2) != 0 ? Trailers::kExpected : Trailers::kNone};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  if (size < 2) return 0;
  const std::string_view body(reinterpret_cast<const char*>(input) + 2, size - 2);
  const Outcome whole = decode(body, make_decoder(input[0]), 0);
  const Outcome pieces = decode(body, make_decoder(input[0]), input[1] + 1);
  // Plain bytes before a failure may come in other steps; the verdict may not differ.
  MR_ASSERT(whole == pieces, whole.plain.size(), pieces.plain.size(), whole.failed, pieces.failed);
  return 0;
}
