// Documents of any bytes as S3 requests carry them: what is taken keeps the limits; what is escaped stays
// text.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "gateway/get_object.h"
#include "gateway/s3_xml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  using namespace millrace;
  using namespace millrace::gateway;
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  if (const auto request = parse_delete(text)) {
    MR_ASSERT(!request->entries.empty() && request->entries.size() <= kMaxDeletes);
    for (const DeleteRequest::Entry& entry : request->entries) MR_ASSERT(!entry.key.empty());
  }
  if (const auto parts = parse_complete(text)) {
    MR_ASSERT(!parts->empty() && parts->size() <= store::kMaxParts);
    for (const CompletedPart& part : *parts) MR_ASSERT(part.number >= 1 && part.number <= store::kMaxParts);
  }
  if (const auto tags = parse_tagging(text)) MR_ASSERT(tags->size() <= 10);
  if (const auto tags = parse_tagging_header(text)) MR_ASSERT(tags->size() <= 10);
  static_cast<void>(parse_create_bucket(text));
  std::string escaped;
  append_escaped(escaped, text);
  MR_ASSERT(escaped.find_first_of("<>\"\r\n\t") == std::string::npos);
  for (const uint64_t whole : {uint64_t{0}, uint64_t{10}, UINT64_MAX}) {
    const ParsedRange range = parse_range(text, whole);
    if (range.kind != RangeKind::kPart) continue;
    MR_ASSERT(range.range.size > 0 && range.range.offset < whole &&
              range.range.size <= whole - range.range.offset);
  }
  static_cast<void>(etag_listed(text, "abc"));
  return 0;
}
