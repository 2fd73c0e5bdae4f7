// Byte-wise; no locale.
#include "base/text.h"

#include <fmt/format.h>

namespace millrace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return lower;
}

std::string printable(std::string_view text, size_t most) {
  std::string safe;
  for (const char c : text.substr(0, most)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" ,"), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

}  // namespace millrace
