// Any bytes as what etcd answers: they are refused or understood, and what is understood keeps its promises.
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "cluster/etcd_answers.h"

using namespace millrace;
using namespace millrace::cluster;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(input), size);
  if (const auto range = parse_range(bytes)) {
    MR_ASSERT(range->revision > 0);
    for (const Entry& entry : range->entries) MR_ASSERT(!entry.name.empty() && entry.revision > 0);
  }
  if (const auto done = parse_transaction(bytes)) MR_ASSERT(done->revision > 0);
  if (const auto lease = parse_grant(bytes)) MR_ASSERT(*lease != LeaseId::kNone);
  static_cast<void>(parse_renewal(bytes));
  if (const auto token = parse_token(bytes)) {
    // It becomes a header.
    for (const char letter : *token) MR_ASSERT(letter > ' ' && letter < 0x7f);
  }
  if (const auto notice = parse_notice(bytes)) MR_ASSERT(!notice->changed || notice->seen > 0);
  const Error failure = parse_failure(size > 0 ? 400 + input[0] : 500, bytes);
  MR_ASSERT(failure.message().size() < 4096);
  return 0;
}
