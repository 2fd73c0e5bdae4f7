// ServiceRunner: transforms of the kind service: an HTTP address that takes a tar and answers with one.
//
// The tar goes there as the body of a POST while the answer is read, so that neither side has to hold a
// shard. Headers say what it is: x-millrace-object and x-millrace-transform. Each run has a connection of its
// own. An answer other than 200 is a failure with the beginning of its body. Thread-safe.
#pragma once

#include "transform/run.h"

namespace millrace::transform {

class ServiceRunner final : public Runner {
 public:
  Result<Outcome> run(const Registered& transform, const Input& input, tar::ByteSink& out) override;
};

}  // namespace millrace::transform
