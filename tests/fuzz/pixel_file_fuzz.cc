// Files of kept pixels: any bytes give records that lie inside them, one behind the other.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/assert.h"
#include "loader/pixel_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace millrace;
  const std::string_view file(reinterpret_cast<const char*>(bytes), size);
  // The identity that the first head claims, so that more than the first comparison is reached.
  uint64_t identity = 0;
  if (size >= 2 * sizeof identity) std::memcpy(&identity, bytes + sizeof identity, sizeof identity);
  uint64_t end = 0;
  for (const loader::PixelRecord& record : loader::parse_pixel_records(file, identity)) {
    MR_ASSERT(record.pixels_offset > end && record.pixels_bytes() > 0, record.pixels_offset, end);
    end = record.pixels_offset + record.pixels_bytes();
    MR_ASSERT(end <= size, end, size);
  }
  return 0;
}
