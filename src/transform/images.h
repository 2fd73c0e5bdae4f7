// ImageRunner: transforms of the kind images: fields chosen and renamed; images decoded, cropped, resized and
// given back as npy arrays, JPEG or PNG; many samples stacked into one with one array.
//
// Pixels are those of the loader with the same options (decode/transform.h). The threads are those of the
// node, one for each core, shared by all runs. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/workers.h"
#include "decode/transform.h"
#include "transform/run.h"

namespace millrace::transform {

class ImageRunner final : public Runner {
 public:
  // `workers` outlives it and has `threads` of them.
  ImageRunner(Workers& workers, unsigned threads) : workers_(workers), threads_(threads) {}
  Result<Outcome> run(const Registered& transform, const Input& input, tar::ByteSink& out) override;

  // Memory for one image, used again and again. As many as work at a time.
  std::unique_ptr<decode::Workspace> take_workspace();
  void give_back(std::unique_ptr<decode::Workspace> workspace);

 private:
  Workers& workers_;
  const unsigned threads_;
  Mutex mutex_;
  std::vector<std::unique_ptr<decode::Workspace>> idle_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::transform
