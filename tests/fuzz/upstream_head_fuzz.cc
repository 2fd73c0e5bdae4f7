// What an upstream says about an object, from the head of its answer to the record that is shown.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "net/response.h"
#include "upstream/remote_object.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto answer = millrace::net::parse_response_head(text);
  if (!answer) return 0;
  const millrace::transfer::ObjectHead head = millrace::transfer::read_head(answer->headers);
  for (const auto etags : {millrace::upstream::Etags::kMayBeMd5, millrace::upstream::Etags::kOpaque}) {
    const millrace::upstream::RemoteHead remote = millrace::upstream::read_remote_head(head, etags);
    // It goes into a header of every answer.
    const std::string etag = millrace::upstream::shown_etag(remote);
    MR_ASSERT(!etag.empty() && etag.find_first_of("\"\r\n") == std::string::npos);
    for (const auto& [name, value] : millrace::upstream::stored_headers(remote))
      MR_ASSERT(value.find_first_of("\r\n") == std::string::npos);
  }
  return 0;
}
