// parse_number and take_number: the only code that turns digits from a file, a header or a person into a
// number.
//
// Strict, and the same in every locale: no blanks, no "+", no "-" before an unsigned number, nothing that the
// type cannot hold. Of real numbers "inf" is one and "nan" is none. Pure; any thread.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace millrace {

template <typename T>
concept Number = (std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T>;

// The number at the start of the text, which is shortened to what follows; as it was where there is none.
template <Number T>
std::optional<T> take_number(std::string_view& text, int base = 10) {
  T number{};
  const char* const end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::floating_point<T>) {
    read = std::from_chars(text.data(), end, number);
  } else {
    read = std::from_chars(text.data(), end, number, base);
  }
  if (read.ec != std::errc{} || number != number) return std::nullopt;
  text = {read.ptr, static_cast<size_t>(end - read.ptr)};
  return number;
}

// The whole text as one number.
template <Number T>
std::optional<T> parse_number(std::string_view text, int base = 10) {
  const auto number = take_number<T>(text, base);
  return text.empty() ? number : std::nullopt;
}

}  // namespace millrace
