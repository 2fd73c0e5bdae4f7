// Addresses of any bytes: what is taken apart can be put together and taken apart again, the same.
#include <cstdint>
#include <string_view>

#include "net/url.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  using namespace millrace::net;
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  if (auto url = parse_url(text)) {
    const std::string written = url->text();
    auto again = parse_url(written);
    MR_ASSERT(again.has_value(), written);
    MR_ASSERT(again->host == url->host && again->port == url->port && again->path == url->path &&
                  again->query == url->query,
              written);
    for (const char c : url->path + url->query) MR_ASSERT(c > ' ' && c < 0x7f, written);
  }
  if (auto decoded = percent_decode(text)) {
    MR_ASSERT(*percent_decode(percent_encode(*decoded, Encode::kAll)) == *decoded);
  }
  static_cast<void>(parse_query(text));
  return 0;
}
