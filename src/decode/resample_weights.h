// Weights of a triangle filter along one axis, in the two forms that the passes want.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace millrace::decode {

// One axis of a resampling: `length` from `from` of `in_size` becomes `out_size`; `count` places from `start`
// on are wanted.
struct Axis {
  uint32_t in_size = 0;
  double from = 0;
  double length = 0;
  uint32_t out_size = 0;
  uint32_t start = 0;
  uint32_t count = 0;

  bool is_identity() const;
  // First place of the input that counts for any wanted place, and how many from there on.
  std::pair<uint32_t, uint32_t> needed() const;
};

class Weights {
 public:
  static constexpr int kPrecision = 22;  // bits after the point
  static constexpr int kLowBits = 11;    // fixed() = high << kLowBits | low

  void compute(const Axis& axis);

  uint32_t places() const { return static_cast<uint32_t>(first_.size()); }
  // The most that any place has.
  uint32_t most_taps() const { return most_taps_; }
  uint32_t first(uint32_t place) const { return first_[place]; }
  uint32_t taps(uint32_t place) const { return taps_[place]; }
  const int32_t* fixed(uint32_t place) const { return fixed_.data() + size_t{place} * stride_; }
  // Pairs of 16-bit weights, one word each, and zeros up to most_taps().
  const int32_t* high(uint32_t place) const { return high_.data() + size_t{place} * (stride_ / 2); }
  const int32_t* low(uint32_t place) const { return low_.data() + size_t{place} * (stride_ / 2); }

 private:
  std::vector<uint32_t> first_;
  std::vector<uint32_t> taps_;
  std::vector<int32_t> fixed_;
  std::vector<int32_t> high_;
  std::vector<int32_t> low_;
  std::vector<double> exact_;
  uint32_t stride_ = 0;  // even
  uint32_t most_taps_ = 0;
};

}  // namespace millrace::decode
