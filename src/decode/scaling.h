// Scaling: the float that each sample becomes, by channel: (sample / 255 - mean) / deviation.
//
// Computed in float32 step by step, as ToTensor and Normalize do, so that tables hold torchvision's very
// bits. Immutable once made.
#pragma once

#include <array>
#include <cstdint>

namespace millrace::decode {

struct Scaling {
  using PerChannel = std::array<float, 4>;

  Scaling() = default;
  Scaling(const PerChannel& means, const PerChannel& deviations);

  std::array<std::array<float, 256>, 4> floats{};
  std::array<std::array<uint16_t, 256>, 4> halves{};  // rounded to the nearest
  PerChannel mean{};
  PerChannel deviation{};
  PerChannel inverse{};  // of the deviation
  // Two multiplications, each with one step of correction, give the bits of the divisions for every sample.
  // True for all usual means and deviations; then wide code computes instead of looking up, which is three
  // times as fast.
  bool divides_by_multiplying = false;
};

}  // namespace millrace::decode
