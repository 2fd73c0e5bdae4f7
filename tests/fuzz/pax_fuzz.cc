// pax records of any bytes: what parses is written again and must read back the same.
#include <cstdint>
#include <string>

#include "tar/pax.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  using namespace millrace;
  // A copy of its own, so that a read behind the end is found.
  const std::string text(reinterpret_cast<const char*>(input), size);
  const auto records = tar::parse_pax(text);
  if (!records) return 0;
  std::string again;
  for (const tar::PaxRecord& record : *records) tar::append_pax(again, record.key, record.value);
  const auto back = tar::parse_pax(again);
  MR_ASSERT(back.has_value(), back.error().message());
  MR_ASSERT(back->size() == records->size(), back->size(), records->size());
  for (size_t i = 0; i < records->size(); ++i) {
    MR_ASSERT((*back)[i].key == (*records)[i].key, i);
    MR_ASSERT((*back)[i].value == (*records)[i].value, i);
  }
  return 0;
}
