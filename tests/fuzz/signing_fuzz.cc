// Requests of any bytes: claims are read and judged, and what we sign ourselves is always found good.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"
#include "net/signing.h"
#include "net/url.h"

namespace {

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  using namespace millrace;
  using namespace millrace::net;
  constexpr int64_t kMoment = 1369353600000;
  std::string_view text(reinterpret_cast<const char*>(input), size);
  SignedRequest request;
  request.method = take_line(text);
  request.path = take_line(text);
  request.query = take_line(text);
  while (!text.empty() && request.headers.size() < 64) {
    const std::string_view line = take_line(text);
    const size_t colon = std::min(line.find(':'), line.size());
    request.headers.emplace_back(lower_case(line.substr(0, colon)),
                                 line.substr(std::min(colon + 1, line.size())));
  }
  if (auto claim = read_claim(request); claim && *claim) {
    static_cast<void>(judge(request, **claim, "secret", kMoment));
    static_cast<void>(ChunkSigner(**claim, "secret").next("00"));
  }
  // Names with the characters that separate them in a claim are no header names.
  for (const HeaderField& header : request.headers) {
    if (header.first.empty() || header.first.find_first_of(";, ") != std::string::npos) return 0;
  }
  if (request.headers.size() > 30 || !parse_query(request.query)) return 0;
  if (request.query.find("X-Amz-") != std::string::npos || request.query.find('%') != std::string::npos)
    return 0;
  request.headers.emplace_back("host", "store");
  sign(request, {"access", "secret", "", "us-east-1"}, kUnsignedPayload, kMoment);
  const auto claim = read_claim(request);
  MR_ASSERT(claim.has_value() && claim->has_value());
  MR_ASSERT(judge(request, **claim, "secret", kMoment) == SignatureProblem::kNone);
  MR_ASSERT(judge(request, **claim, "other", kMoment) == SignatureProblem::kMismatch);
  return 0;
}
