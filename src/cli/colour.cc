// Writes escape sequences for colours, on terminals only.
#include "cli/colour.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/terminal.h"

namespace millrace::cli {

std::string paint(Stream stream, Colour colour, std::string_view text) {
  if (!shows_colours(stream == Stream::kOutput ? STDOUT_FILENO : STDERR_FILENO)) return std::string(text);
  const char* const code = colour == Colour::kRed     ? "1;31"
                           : colour == Colour::kGreen ? "32"
                           : colour == Colour::kBlue  ? "1;34"
                                                      : "1";
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace millrace::cli
