// Exact numbers: a plan adds, divides and compares rates, and two ways that are equally narrow must be found
// equal.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>

namespace millrace::plan {

using Integer =
    boost::multiprecision::number<boost::multiprecision::cpp_int_backend<>, boost::multiprecision::et_off>;
using Rational = boost::multiprecision::number<
    boost::multiprecision::rational_adaptor<boost::multiprecision::cpp_int_backend<>>,
    boost::multiprecision::et_off>;

inline double to_double(const Rational& value) {
  return value.convert_to<double>();
}

// The smallest whole number that is not less; of values from 0 to 2^64.
inline uint64_t ceiling(const Rational& value) {
  const Integer above = boost::multiprecision::numerator(value);
  const Integer below = boost::multiprecision::denominator(value);
  return static_cast<uint64_t>((above + below - 1) / below);
}

// To a millionth of a millionth, as a person wrote it: 0.1 is one tenth.
inline Rational to_rational(double value) {
  constexpr int64_t kParts = 1'000'000'000'000;
  const double whole = static_cast<double>(static_cast<int64_t>(value));
  const double rest = (value - whole) * static_cast<double>(kParts);
  return Rational(static_cast<int64_t>(whole)) +
         Rational(static_cast<int64_t>(rest < 0 ? rest - 0.5 : rest + 0.5), kParts);
}

}  // namespace millrace::plan
