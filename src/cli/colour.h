// Colours for people: only on a terminal, and not where NO_COLOR is set or TERM is dumb.
#pragma once

#include <string>
#include <string_view>

namespace millrace::cli {

enum class Colour { kRed, kGreen, kBlue, kBold };
enum class Stream { kOutput, kError };

// The text, with escape sequences around it where the stream shows them.
std::string paint(Stream stream, Colour colour, std::string_view text);

}  // namespace millrace::cli
