// Implements a failed MR_ASSERT: prints the condition and its values, then ends the program.
#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace millrace {

void assertion_failed(std::string_view condition, const std::string& values, const char* file, int line) {
  fmt::print(stderr, "millrace: bug at {}:{}: {} does not hold [{}]\n", file, line, condition, values);
  std::abort();
}

}  // namespace millrace
