// Batches of any bytes: what is taken keeps the limits and asks for one thing per entry.
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "gateway/batch_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  using namespace millrace::gateway;
  const auto request = parse_batch_request({reinterpret_cast<const char*>(input), size});
  if (!request) return 0;
  MR_ASSERT(request->entries.size() <= kMaxBatchEntries);
  for (const BatchEntry& entry : request->entries) {
    MR_ASSERT(!entry.object.empty());
    MR_ASSERT(entry.sample.has_value() + entry.member.has_value() + entry.range.has_value() <= 1);
  }
  return 0;
}
