// Parses sizes strictly and prints them plainly.
#include "base/units.h"

#include <array>
#include <cmath>

#include "base/number.h"

namespace millrace {

Result<uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kHint = "write a number and a unit, for example 256MiB, 3GB or 512";
  std::string_view unit = text;
  const auto number = take_number<double>(unit);
  if (!number || !std::isfinite(*number) || *number < 0) {
    return make_error(Code::kInvalid, "\"{}\" is not a size in bytes", text).with_hint(std::string(kHint));
  }
  double scale = 1;
  if (!unit.empty() && unit != "B") {
    constexpr std::string_view kPrefixes = "KMGTP";
    const size_t power = kPrefixes.find(unit[0] == 'k' ? 'K' : unit[0]);
    unit.remove_prefix(1);
    const bool known =
        power != std::string_view::npos && (unit.empty() || unit == "B" || unit == "iB" || unit == "i");
    if (!known) {
      return make_error(Code::kInvalid, "\"{}\" has an unknown unit", text).with_hint(std::string(kHint));
    }
    const double base = unit.starts_with('i') ? 1024 : 1000;
    scale = std::pow(base, static_cast<double>(power + 1));
  }
  const double bytes = *number * scale;
  if (bytes > 9e18) return make_error(Code::kInvalid, "\"{}\" is larger than any file", text);
  return static_cast<uint64_t>(std::llround(bytes));
}

Result<uint64_t> parse_rate(std::string_view text) {
  const auto wrong = [text] {
    return make_error(Code::kInvalid, "\"{}\" is not a rate", text)
        .with_hint("write a number, a unit of bytes or bits, and /s, for example 200MB/s, 8GiB/s or 10Gb/s");
  };
  if (!text.ends_with("B/s") && !text.ends_with("b/s")) return wrong();
  std::string amount(text.substr(0, text.size() - 2));
  const bool in_bits = amount.back() == 'b';
  amount.back() = 'B';
  const auto parsed = parse_bytes(amount);
  if (!parsed) return wrong();
  return in_bits ? *parsed / 8 : *parsed;
}

Result<uint64_t> parse_seconds(std::string_view text) {
  std::string_view unit = text;
  const auto number = take_number<uint64_t>(unit);
  uint64_t factor = 0;
  if (unit.empty() || unit == "s") factor = 1;
  if (unit == "m" || unit == "min") factor = 60;
  if (unit == "h") factor = 3600;
  if (unit == "d") factor = 86400;
  if (!number || factor == 0 || *number > UINT64_MAX / factor / 2) {
    return make_error(Code::kInvalid, "\"{}\" is not a duration", text)
        .with_hint("such as 30s, 10m, 12h or 14d");
  }
  return *number * factor;
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, " ");
  return digits;
}

}  // namespace millrace
