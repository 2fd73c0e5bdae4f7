// MR_ASSERT: a bug stops the program with the condition and the values that broke it. Always on.
//
// Only for what the code itself guarantees. Bytes from a disk, a peer or a user get a Result.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace millrace {

[[noreturn]] void assertion_failed(std::string_view condition, const std::string& values, const char* file,
                                   int line);

template <typename... Values>
std::string join_values(const Values&... values) {
  std::string text;
  ((text += text.empty() ? fmt::format("{}", values) : fmt::format(", {}", values)), ...);
  return text;
}

}  // namespace millrace

#define MR_ASSERT(condition, ...)                                                                         \
  do {                                                                                                    \
    if (!(condition)) [[unlikely]] {                                                                      \
      ::millrace::assertion_failed(#condition, ::millrace::join_values(__VA_ARGS__), __FILE__, __LINE__); \
    }                                                                                                     \
  } while (false)
