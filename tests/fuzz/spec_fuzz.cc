// What a person may type as a field specification.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "loader/spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto fields = millrace::loader::parse_fields({reinterpret_cast<const char*>(bytes), size});
  if (!fields) return 0;
  for (const auto& field : *fields) {
    if (field.name.empty()) __builtin_trap();
  }
  return 0;
}
