// Implements RandomAccess: fills single samples with the code that fills batches.
#include "loader/random_access.h"

#include <algorithm>

#include "base/mutex.h"

namespace millrace::loader {

namespace {
constexpr uint64_t kKept = 64 << 20;

Recipe strict(Recipe recipe) {
  recipe.on_error = OnError::kFail;
  return recipe;
}
}  // namespace

RandomAccess::RandomAccess(std::shared_ptr<const Catalogue> catalogue, Recipe recipe)
    : catalogue_(std::move(catalogue)),
      recipe_(strict(std::move(recipe))),
      pool_(std::make_shared<MemoryPool>(kKept)),
      starts_{0} {
  for (const uint64_t samples : catalogue_->samples_per_shard()) starts_.push_back(starts_.back() + samples);
}

Result<std::unique_ptr<RandomAccess>> RandomAccess::open(std::shared_ptr<const Catalogue> catalogue,
                                                         Recipe recipe) {
  if (!catalogue->is_indexed())
    return make_error(Code::kInvalid, "samples by number need indexed shards, these are streamed");
  std::unique_ptr<RandomAccess> access(new RandomAccess(std::move(catalogue), std::move(recipe)));
  access->filling_ = MR_TRY(Filling::make(*access->catalogue_, access->recipe_, nullptr, access->meters_));
  const MutexLock lock(access->mutex_);
  access->start_fetching();
  return access;
}

void RandomAccess::start_fetching() {
  fetcher_ = std::make_unique<Fetcher>(*catalogue_, 1, nullptr, meters_);
}

Status RandomAccess::wait_for(const BatchPlan& plan, const std::function<bool()>& goes_on) {
  constexpr uint64_t kLookMs = 100;
  const auto wait = [&](const Element& element) MR_REQUIRES(mutex_) -> Status {
    while (!element.chunk->wait(kLookMs)) {
      if (goes_on()) continue;
      start_fetching();  // the old one's connections are cut
      return make_error(Code::kCancelled, "waiting for a sample was given up");
    }
    return {};
  };
  for (const Element& element : plan.elements) {
    MR_TRY(wait(element));
    for (const Element& lent : element.columns) MR_TRY(wait(lent));
  }
  return {};
}

Result<std::shared_ptr<Batch>> RandomAccess::get(std::span<const uint64_t> numbers, uint64_t epoch,
                                                 const std::function<bool()>& goes_on) {
  const MutexLock lock(mutex_);
  BatchPlan plan;
  plan.epoch = epoch;
  for (const uint64_t number : numbers) {
    if (number >= starts_.back())
      return make_error(Code::kInvalid, "there is no sample {}: the data set has {}", number, starts_.back());
    const auto shard =
        static_cast<uint32_t>(std::upper_bound(starts_.begin(), starts_.end(), number) - starts_.begin() - 1);
    const SampleRef sample{shard, number - starts_[shard]};
    const Supply supply{*fetcher_, pool_};
    Element& element = plan.elements.emplace_back(fetch_sample(*catalogue_, sample, supply));
    for (const SampleRef lent : catalogue_->columns_of(sample))
      element.columns.push_back(fetch_sample(*catalogue_, lent, supply));
  }
  MR_TRY(wait_for(plan, goes_on));
  Assembly assembly(std::move(plan), pool_);
  assembly.prepare(*filling_);
  const std::atomic<bool> never = false;
  assembly.work(*filling_, scratch_, never);
  return assembly.finish(*filling_).batch;
}

}  // namespace millrace::loader
