// What a person may write as a size or a rate.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto rate = millrace::parse_rate(text);
  if (!rate) {
    if (rate.error().hint().empty()) __builtin_trap();
    return 0;
  }
  // A rate without its "/s" is a size; of bits, eight times as much.
  if (!text.ends_with("/s")) __builtin_trap();
  std::string amount(text.substr(0, text.size() - 2));
  const bool in_bits = amount.back() == 'b';
  amount.back() = 'B';
  const auto parsed = millrace::parse_bytes(amount);
  if (!parsed || *rate != (in_bits ? *parsed / 8 : *parsed)) __builtin_trap();
  return 0;
}
