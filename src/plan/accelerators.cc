// The table of simulated accelerators.
#include "plan/accelerators.h"

namespace millrace::plan {

std::span<const Accelerator> accelerators() {
  static constexpr Accelerator kAll[] = {
      {"resnet50-a100", 114'660, 400, 0.435},   {"resnet50-h100", 114'660, 400, 0.224},
      {"unet3d-a100", 146'600'628, 7, 0.636},   {"unet3d-h100", 146'600'628, 7, 0.323},
      {"unet3d-b200", 146'600'628, 7, 0.162},   {"cosmoflow-a100", 2'828'486, 1, 0.00551},
      {"cosmoflow-h100", 2'828'486, 1, 0.0035}, {"retinanet-b200", 322'957, 24, 0.04755},
  };
  return kAll;
}

}  // namespace millrace::plan
