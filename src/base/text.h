// Text helpers that must be the same everywhere: lower case for field names, safe printing of outside names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// ASCII only, whatever the locale.
std::string lower_case(std::string_view text);

// Control characters as \xNN, at most `most` bytes: a name from an archive cannot drive the terminal.
std::string printable(std::string_view text, size_t most = 4096);

bool is_utf8(std::string_view text);

// Without the blanks around it. Line ends are none unless asked for: whoever parses strictly must see them.
std::string_view trim(std::string_view text, std::string_view blanks = " \t");

// "jpg,cls png" -> jpg, cls, png: commas and spaces separate, empty words are dropped.
std::vector<std::string> split_words(std::string_view text);

}  // namespace millrace
