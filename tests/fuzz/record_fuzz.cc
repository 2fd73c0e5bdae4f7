// Records of any bytes, as they come and with the right checksum behind them: what is taken is written back
// the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "base/crc.h"
#include "store/coding.h"
#include "store/record.h"

namespace {

using namespace millrace::store;

void decode(std::string_view bytes) {
  const auto summary = summarize_record(bytes);
  const auto record = decode_record(bytes);
  if (!record) {
    static_cast<void>(decode_spread_of(bytes));
    return;
  }
  MR_ASSERT(summary.has_value());
  MR_ASSERT(summary->version == record->version && summary->size == record->size &&
            summary->etag == record->etag);
  MR_ASSERT(summary->deleted == record->deleted && summary->head == record->head &&
            summary->modified_ms == record->modified_ms);
  const auto spread = decode_spread_of(bytes);
  MR_ASSERT(spread.has_value() && *spread == record->spread);
  const auto again = decode_record(encode_record(*record));
  MR_ASSERT(again.has_value() && *again == *record);
  MR_ASSERT(files_of(*record).size() <= record->pieces.size() + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(input), size);
  decode(bytes);
  // A fuzzer does not guess checksums; behind a right one the rest is reached too.
  Encoder checksum;
  checksum.u32(millrace::crc32c(bytes));
  decode(std::string(bytes) + std::string(checksum.bytes()));
  return 0;
}
