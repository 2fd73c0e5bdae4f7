// Load: many streams of GET and PUT against one bucket for a while, and what each request took.
//
// Objects of each size are put first, so that reads find something. Deterministic but for the clock: which
// object and which kind of request come from base/random.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "transfer/objects.h"

namespace millrace::transfer {

struct LoadOptions {
  std::vector<uint64_t> sizes = {4 << 10, 1 << 20};
  double put_share = 0.1;
  unsigned streams = 16;
  double seconds = 10;
  unsigned objects = 64;  // of each size
  uint64_t seed = 1;
};

struct LoadResult {
  uint64_t bytes = 0;
  uint64_t errors = 0;
  std::string first_error;
  std::vector<uint32_t> microseconds;       // of each request, sorted
  uint64_t percentile(double share) const;  // in microseconds; 0 if there were none
};
struct LoadReport {
  LoadResult get;
  LoadResult put;
  double seconds = 0;
};

// Puts what will be read. The keys are below the prefix of `place`.
Status prepare_load(const Location& place, const LoadOptions& options);
Result<LoadReport> run_load(const Location& place, const LoadOptions& options, Progress* progress);
Status clean_load(const Location& place);

}  // namespace millrace::transfer
