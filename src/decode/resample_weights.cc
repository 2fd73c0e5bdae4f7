// Computes filter weights. The arithmetic follows PIL's step by step, since its roundings decide single bits
// of the result.
#include "decode/resample_weights.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace millrace::decode {

namespace {

struct Filter {
  explicit Filter(const Axis& axis)
      : from(static_cast<float>(axis.from)),
        scale(static_cast<double>(static_cast<float>(axis.from + axis.length) - from) / axis.out_size),
        support(std::max(scale, 1.0)) {}

  // Places of the input that count for a place of the output: from, and up to.
  std::pair<uint32_t, uint32_t> reach(double center, uint32_t in_size) const {
    const auto low = static_cast<int64_t>(std::trunc(center - support + 0.5));
    const auto high = static_cast<int64_t>(std::trunc(center + support + 0.5));
    return {static_cast<uint32_t>(std::clamp<int64_t>(low, 0, in_size)),
            static_cast<uint32_t>(std::clamp<int64_t>(high, 0, in_size))};
  }
  double center(uint32_t place) const { return from + (place + 0.5) * scale; }

  float from;
  double scale;
  double support;  // of a triangle of height one whose half width is the scale, at least one
};

double triangle(double x) {
  return std::max(0.0, 1.0 - std::abs(x));
}

int32_t pair(int32_t first, int32_t second) {
  return static_cast<int32_t>(static_cast<uint32_t>(second) << 16 | static_cast<uint32_t>(first));
}

}  // namespace

bool Axis::is_identity() const {
  return in_size == out_size && from == 0 && length == in_size;
}

std::pair<uint32_t, uint32_t> Axis::needed() const {
  if (is_identity()) return {start, count};
  const Filter filter(*this);
  const uint32_t first = filter.reach(filter.center(start), in_size).first;
  const uint32_t end = filter.reach(filter.center(start + count - 1), in_size).second;
  return {first, end - first};
}

void Weights::compute(const Axis& axis) {
  MR_ASSERT(axis.count > 0 && axis.start + axis.count <= axis.out_size, axis.start, axis.count,
            axis.out_size);
  const Filter filter(axis);
  const auto limit = static_cast<uint32_t>(std::ceil(filter.support)) * 2 + 1;
  stride_ = (limit + 1) & ~1U;
  most_taps_ = 0;
  first_.resize(axis.count);
  taps_.resize(axis.count);
  exact_.resize(stride_);
  fixed_.assign(size_t{axis.count} * stride_, 0);
  high_.resize(fixed_.size() / 2);
  low_.resize(fixed_.size() / 2);
  for (uint32_t place = 0; place < axis.count; ++place) {
    const double center = filter.center(axis.start + place);
    const auto [first, end] = filter.reach(center, axis.in_size);
    const uint32_t taps = end - first;
    MR_ASSERT(taps > 0 && taps <= limit, taps, limit);
    most_taps_ = std::max(most_taps_, taps);
    double sum = 0;
    for (uint32_t i = 0; i < taps; ++i) {
      exact_[i] = triangle((i + first - center + 0.5) * (1.0 / filter.support));
      sum += exact_[i];
    }
    int32_t* weights = fixed_.data() + size_t{place} * stride_;
    for (uint32_t i = 0; i < taps; ++i) {
      const double share = sum == 0 ? exact_[i] : exact_[i] / sum;
      weights[i] = static_cast<int32_t>(std::trunc(0.5 + share * (1 << kPrecision)));
    }
    for (uint32_t i = 0; i < stride_; i += 2) {
      const size_t at = (size_t{place} * stride_ + i) / 2;
      high_[at] = pair(weights[i] >> kLowBits, weights[i + 1] >> kLowBits);
      low_[at] = pair(weights[i] & ((1 << kLowBits) - 1), weights[i + 1] & ((1 << kLowBits) - 1));
    }
    first_[place] = first;
    taps_[place] = taps;
  }
}

}  // namespace millrace::decode
