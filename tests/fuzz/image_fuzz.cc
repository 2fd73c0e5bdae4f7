// Images of any bytes: no crash, bounded memory, and a region has the pixels of the whole.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/assert.h"
#include "base/random.h"
#include "decode/image.h"
#include "decode/transform.h"

namespace {

using namespace millrace;
using namespace millrace::decode;

constexpr uint64_t kMostPixels = 1 << 16;

Rect choose_region(Size size, uint64_t seed) {
  Random random(seed);
  Rect region;
  region.x = static_cast<uint32_t>(random.below(size.width));
  region.y = static_cast<uint32_t>(random.below(size.height));
  region.width = 1 + static_cast<uint32_t>(random.below(size.width - region.x));
  region.height = 1 + static_cast<uint32_t>(random.below(size.height - region.y));
  return region;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  if (size < 2) return 0;
  static Workspace workspace;
  static Pixels whole_image;
  static Pixels part;
  const std::string_view bytes(reinterpret_cast<const char*>(input) + 2, size - 2);
  DecodeOptions options;
  options.most_pixels = kMostPixels;
  options.channels = std::array{Channels::kGray, Channels::kRgb, Channels::kRgba}[input[0] % 3];
  const auto read = read_size(bytes);
  const auto decoded = workspace.decoder.decode(bytes, options, whole_image);
  if (!decoded) {
    MR_ASSERT(!decoded.error().message().empty());
    return 0;
  }
  MR_ASSERT(read && *read == whole_image.size(), whole_image.size().width, whole_image.size().height);
  options.region = choose_region(*read, input[1]);
  const auto again = workspace.decoder.decode(bytes, options, part);
  MR_ASSERT(again.has_value(), again ? "" : again.error().message());
  const PixelsView expected = whole_image.view().part(*options.region);
  for (uint32_t y = 0; y < part.size().height; ++y) {
    MR_ASSERT(std::memcmp(part.row(y), expected.row(y), part.row_bytes()) == 0, y, options.region->x,
              options.region->y, options.region->width, options.region->height);
  }
  MR_ASSERT(decode_bounded(bytes, 1 + input[1], workspace, part, options.channels).has_value());
  return 0;
}
