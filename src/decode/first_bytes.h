// How the beginning of bytes that nobody could read is shown in an error.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace millrace::decode {

// ASCII as it is, everything else as \xNN.
inline std::string first_bytes(std::string_view bytes, size_t most = 12) {
  std::string shown;
  for (const char character : bytes.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(character);
    shown += byte >= 0x20 && byte < 0x7f ? std::string(1, character) : fmt::format("\\x{:02x}", byte);
  }
  return shown;
}

}  // namespace millrace::decode
