// Makes the tables of Scaling. Trying all 256 samples shows whether multiplying gives the same bits as
// dividing.
#include "decode/scaling.h"

#include <bit>
#include <cmath>

namespace millrace::decode {

namespace {

// value / divisor, through the divisor's inverse; what planar.cc does with eight values.
float divide(float value, float divisor, float inverse) {
  const float guess = value * inverse;
  const float rest = std::fma(-guess, divisor, value);
  return std::fma(rest, inverse, guess);
}

}  // namespace

Scaling::Scaling(const PerChannel& means, const PerChannel& deviations) : mean(means), deviation(deviations) {
  divides_by_multiplying = true;
  for (size_t channel = 0; channel < mean.size(); ++channel) {
    inverse[channel] = 1.0F / deviation[channel];
    for (size_t sample = 0; sample < 256; ++sample) {
      const auto whole = static_cast<float>(sample);
      const float value = (whole / 255.0F - mean[channel]) / deviation[channel];
      floats[channel][sample] = value;
      halves[channel][sample] = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
      const float unit = divide(whole, 255.0F, 1.0F / 255.0F);
      const float multiplied = divide(unit - mean[channel], deviation[channel], inverse[channel]);
      if (std::bit_cast<uint32_t>(multiplied) != std::bit_cast<uint32_t>(value))
        divides_by_multiplying = false;
    }
  }
}

}  // namespace millrace::decode
