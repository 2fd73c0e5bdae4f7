// One run of a transform: the bytes of a tar in, the bytes of a tar out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "tar/window.h"
#include "tar/writer.h"
#include "transform/description.h"

namespace millrace::transform {

// A sample for which the transform failed, or an output that is no tar.
inline constexpr Reason kTransformFailed{Code::kInvalid, "transform failed"};

struct Input {
  std::string object;  // "train/shard-000000.tar", for messages
  // Without compression; ends with the tar. Read by one thread at a time.
  tar::ByteSource& tar;
  std::optional<uint64_t> size;  // of the tar, where it is known
};

struct Outcome {
  uint64_t in = 0;  // samples; of filters and services nobody knows
  uint64_t out = 0;
  uint64_t failed = 0;  // left out or kept as they were
};

// Runs of one kind. Blocks; thread-safe. An error of `out` ends the run and is its error.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual Result<Outcome> run(const Registered& transform, const Input& input, tar::ByteSink& out) = 0;
};

}  // namespace millrace::transform
