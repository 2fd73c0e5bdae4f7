// Decides about colours from the environment and the descriptor.
#include "base/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace millrace {

bool shows_colours(int descriptor) {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return (refused == nullptr || *refused == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb" && isatty(descriptor) == 1;
}

}  // namespace millrace
