// Manifests of sample stores and messages of records: any bytes are refused or mean something consistent.
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "exchange/manifest.h"
#include "exchange/record_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace millrace;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto manifest = exchange::parse_manifest(text)) {
    for (const exchange::Record& record : manifest->records) {
      const exchange::Segment* segment = manifest->find_segment(record.segment);
      MR_ASSERT(segment != nullptr && record.offset + record.bytes <= segment->bytes);
    }
    MR_ASSERT(exchange::encode_manifest(*manifest) == text);
  }
  size_t seen = 0;
  const Status read = exchange::each_record(text, [&](const shard::RunRecord& record) -> Status {
    seen += record.order.size() + record.blocks.size();
    return {};
  });
  MR_ASSERT(!read || seen <= size);
  return 0;
}
