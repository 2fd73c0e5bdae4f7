// Indexes of any bytes, as they are and with magic, version and checksum made right: whatever parses answers
// every question within its bounds.
#include <cstdint>
#include <cstring>
#include <string>

#include "base/hash.h"
#include "tar/index.h"
#include "tar/index_layout.h"

namespace millrace::tar {
namespace {

void ask_everything(std::string bytes) {
  auto parsed = Index::parse(std::move(bytes));
  if (!parsed) return;
  const Index index = parsed.take();
  for (uint64_t sample = 0; sample < index.samples(); ++sample) {
    const Index::Range range = index.range(sample);
    MR_ASSERT(range.size <= index.tar_bytes() && range.offset <= index.tar_bytes() - range.size, range.offset,
              range.size);
    static_cast<void>(index.key_hash(sample));
    for (const Index::Field& field : index.fields(sample)) {
      MR_ASSERT(field.offset >= range.offset, field.offset, range.offset);
      MR_ASSERT(field.size <= range.size, field.size, range.size);
      MR_ASSERT(field.offset + field.size <= range.offset + range.size, field.offset, field.size);
      // Touches every byte of the name.
      static_cast<void>(hash64(field.field));
    }
  }
  static_cast<void>(index.find("key"));
  for (const std::string_view name : index.field_names()) static_cast<void>(index.find(name));
}

}  // namespace
}  // namespace millrace::tar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  using namespace millrace;
  using namespace millrace::tar;
  std::string bytes(reinterpret_cast<const char*>(input), size);
  ask_everything(bytes);
  if (size < layout::kHeaderBytes + layout::kChecksumBytes) return 0;
  std::memcpy(bytes.data(), layout::kMagic.data(), layout::kMagic.size());
  std::memcpy(bytes.data() + layout::kVersionAt, &layout::kVersion, sizeof layout::kVersion);
  bytes.resize(size - layout::kChecksumBytes);
  layout::put(bytes, hash64(bytes));
  ask_everything(std::move(bytes));
  return 0;
}
