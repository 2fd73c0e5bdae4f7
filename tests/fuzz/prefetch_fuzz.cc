// The keys that a client wants to be fetched.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "gateway/prefetch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto keys = millrace::gateway::parse_prefetch({reinterpret_cast<const char*>(bytes), size});
  if (!keys) return 0;
  MR_ASSERT(keys->size() <= millrace::gateway::kMaxPrefetchKeys);
  for (const std::string& key : *keys) MR_ASSERT(!key.empty() && key.size() <= millrace::store::kMaxKeyBytes);
  return 0;
}
