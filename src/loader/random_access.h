// RandomAccess: any samples by their number in the data set, as a batch; for map-style use and for looking.
//
// Numbers count through the shards in the data set's own order. Thread-safe; samples are decoded by one
// thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/mutex.h"
#include "loader/assemble.h"
#include "loader/fetch.h"

namespace millrace::loader {

class RandomAccess {
 public:
  static Result<std::unique_ptr<RandomAccess>> open(std::shared_ptr<const Catalogue> catalogue,
                                                    Recipe recipe);

  // A bad sample is an error whatever the recipe says. `goes_on` is asked now and then while bytes are waited
  // for: false gives up.
  Result<std::shared_ptr<Batch>> get(std::span<const uint64_t> numbers, uint64_t epoch,
                                     const std::function<bool()>& goes_on);

 private:
  RandomAccess(std::shared_ptr<const Catalogue> catalogue, Recipe recipe);
  Status wait_for(const BatchPlan& plan, const std::function<bool()>& goes_on) MR_REQUIRES(mutex_);
  void start_fetching() MR_REQUIRES(mutex_);

  const std::shared_ptr<const Catalogue> catalogue_;
  const Recipe recipe_;
  Meters meters_;
  const std::shared_ptr<MemoryPool> pool_;
  std::vector<uint64_t> starts_;  // number of each shard's first sample; one more at the end
  std::unique_ptr<Filling> filling_;
  Mutex mutex_;  // one caller at a time
  std::unique_ptr<Fetcher> fetcher_ MR_GUARDED_BY(mutex_);
  Scratch scratch_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::loader
