// Arrays, labels and gzip of any bytes: no crash, bounded memory.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "decode/inflate.h"
#include "decode/label.h"
#include "decode/npy.h"

namespace {

using namespace millrace;
using namespace millrace::decode;

constexpr uint64_t kMost = 1 << 20;

void check(const ArrayView& array) {
  const auto expected = array_bytes(array.dtype, array.shape);
  MR_ASSERT(expected && *expected == array.bytes.size(), array.bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(input), size);
  if (const auto array = parse_npy(bytes)) check(*array);
  if (const auto plain = gunzip(bytes, kMost)) MR_ASSERT(plain->size() <= kMost, plain->size());
  if (const auto label = parse_label(bytes)) MR_ASSERT(*parse_label(std::to_string(*label)) == *label);
  return 0;
}
