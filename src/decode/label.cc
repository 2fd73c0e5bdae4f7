// Parses labels digit by digit, because Python allows underscores between digits.
#include "decode/label.h"

#include "base/text.h"

namespace millrace::decode {

Result<int64_t> parse_label(std::string_view text) {
  std::string_view digits = trim(text, " \t\n\r\v\f");
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  int64_t value = 0;
  bool after_digit = false;
  for (const char character : digits) {
    if (character == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    if (character < '0' || character > '9') {
      after_digit = false;
      break;
    }
    // Towards the negative side, which reaches one further.
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, character - '0', &value)) {
      return make_error(Code::kTooLarge, "label \"{}\" does not fit 64 bits", printable(text, 40));
    }
    after_digit = true;
  }
  if (!after_digit)
    return make_error(Code::kCorrupt, "label \"{}\" is not a whole number", printable(text, 40));
  if (!negative && __builtin_sub_overflow(int64_t{0}, value, &value)) {
    return make_error(Code::kTooLarge, "label \"{}\" does not fit 64 bits", printable(text, 40));
  }
  return value;
}

}  // namespace millrace::decode
