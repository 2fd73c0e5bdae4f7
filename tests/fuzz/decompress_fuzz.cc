// Compressed streams of any bytes: no crash, no endless loop, and the end stays the end.
//
// Input: 1 byte of control, then the stream. Control: the step of reading.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tar/compress.h"
#include "tar/testing/archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  using namespace millrace;
  using namespace millrace::tar;
  if (size < 1) return 0;
  // A bomb unpacks a thousandfold; a cap keeps the fuzzer fast.
  constexpr uint64_t kMostOutput = 4 << 20;
  const std::string stream(reinterpret_cast<const char*>(input) + 1, size - 1);
  const Compression compression = recognise_compression(stream.substr(0, kMagicBytes));
  if (compression == Compression::kNone) return 0;
  const size_t step = input[0] < 128 ? 1 + input[0] : 100'000;
  testing::StringSource source(stream, step);
  const auto plain = make_decompressor(compression, source, "fuzz.tar").take();
  std::vector<std::byte> into(std::min<size_t>(step * 3, 65536));
  uint64_t made = 0;
  while (made < kMostOutput) {
    const auto got = plain->read_some(into);
    if (!got) return 0;
    if (*got == 0) {
      MR_ASSERT(plain->read_some(into).take() == 0);
      return 0;
    }
    MR_ASSERT(*got <= into.size(), *got);
    made += *got;
  }
  return 0;
}
