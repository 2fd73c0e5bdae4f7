// Batches put together from one part or many.
#include "loader/plan.h"

#include <algorithm>
#include <cmath>

namespace millrace::loader {

namespace {

// One request: long enough that its latency does not matter, short enough to share fairly.
constexpr uint64_t kMostChunkBytes = 2 << 20;
constexpr uint64_t kLeastChunkBytes = 64 << 10;

// Half of the memory is for bytes that wait for their turn: the windows, and about one chunk at either end of
// every lane.
Reading choose_reading(const Catalogue& catalogue, const Recipe& recipe, uint64_t world) {
  const double sample_bytes = static_cast<double>(catalogue.bytes()) /
                              static_cast<double>(std::max<uint64_t>(catalogue.samples(), 1));
  const double samples = static_cast<double>(std::min(recipe.window, catalogue.samples()));
  const auto window = static_cast<uint64_t>(samples * sample_bytes / static_cast<double>(world));
  const uint64_t lanes = std::max<uint64_t>(recipe.batch / Order::kElementsPerLane / world, 1);
  Reading reading;
  reading.by_sample = window > recipe.memory / 2;
  const uint64_t left = recipe.memory / 2 - std::min(window, recipe.memory / 2);
  reading.chunk_bytes = std::clamp(left / (2 * lanes), kLeastChunkBytes, kMostChunkBytes);
  return reading;
}

OrderOptions options_of(const Recipe& recipe, uint64_t epoch) {
  return {recipe.seed, epoch, recipe.batch, recipe.window, recipe.end};
}

}  // namespace

uint64_t count_batches(const Catalogue& catalogue, const Recipe& recipe) {
  if (!recipe.weights.empty()) return catalogue.samples() / recipe.batch;
  return Order(catalogue.samples_per_shard(), options_of(recipe, 0)).batches();
}

Planner::Planner(const Catalogue& catalogue, const Recipe& recipe, Place place, Supply supply)
    : catalogue_(catalogue),
      recipe_(recipe),
      place_(place),
      supply_(std::move(supply)),
      reading_(choose_reading(catalogue, recipe, place.world)),
      batches_(count_batches(catalogue, recipe)),
      batch_(place.batch),
      parts_(recipe.weights.empty() ? 1 : recipe.weights.size()) {
  if (recipe.weights.empty()) {
    parts_[0].plan =
        std::make_unique<PartPlan>(catalogue, 0, options_of(recipe, place.epoch), reading_, supply_);
  } else {
    mixture_ = Mixture::make(recipe.weights).take();
  }
}

std::optional<BatchPlan> Planner::next() {
  if (batch_ >= batches_) return std::nullopt;
  BatchPlan plan{place_.epoch, batch_, {}, 0};
  if (mixture_) {
    const uint64_t first = recipe_.batch * place_.rank / place_.world;
    const Slice mine{first, recipe_.batch * (place_.rank + 1) / place_.world - first};
    plan.elements.resize(mine.size);
    take_mixed(mine, plan.elements);
  } else {
    PartPlan& only = *parts_[0].plan;
    const Slice mine = only.order().slice(batch_, place_.rank, place_.world);
    plan.elements.resize(mine.size);
    only.take(batch_, mine, plan.elements);
  }
  for (const Element& element : plan.elements) plan.bytes += element.size;
  batch_ += place_.step;
  return plan;
}

void Planner::take_mixed(Slice mine, std::vector<Element>& into) {
  const uint64_t start = (place_.epoch * batches_ + batch_) * recipe_.batch + mine.first;
  for (size_t part = 0; part < parts_.size(); ++part) {
    const uint64_t first = mixture_->before(part, start);
    const Slice places{first, mixture_->before(part, start + mine.size) - first};
    std::vector<Element> taken(places.size);
    take_from(part, places, taken);
    uint64_t used = 0;
    for (uint64_t i = 0; i < mine.size; ++i) {
      if (mixture_->part(start + i) == part) into[i] = std::move(taken[used++]);
    }
  }
}

// A stretch of a part's own stream: its epochs one after the other, each in batches of its own.
void Planner::take_from(size_t part, Slice places, std::vector<Element>& into) {
  const auto& per_shard = catalogue_.samples_per_shard();
  uint64_t samples = 0;
  for (size_t i = catalogue_.parts()[part]; i < catalogue_.parts()[part + 1]; ++i) samples += per_shard[i];
  uint64_t done = 0;
  while (done < places.size) {
    const uint64_t place = places.first + done;
    PartPlan& plan = part_in_epoch(part, place / samples);
    const uint64_t own_batch = plan.order().options().batch;
    const uint64_t batch = place % samples / own_batch;
    const uint64_t element = place % samples % own_batch;
    const uint64_t size = std::min(plan.order().batch_size(batch) - element, places.size - done);
    plan.take(batch, {element, size}, std::span(into).subspan(done, size));
    done += size;
  }
}

PartPlan& Planner::part_in_epoch(size_t part, uint64_t epoch) {
  Part& found = parts_[part];
  if (!found.plan || found.epoch != epoch) {
    OrderOptions options = options_of(recipe_, epoch);
    const double share = mixture_->share(part);
    options.batch = std::max<uint64_t>(
        static_cast<uint64_t>(std::llround(share * static_cast<double>(recipe_.batch))), 1);
    options.window = static_cast<uint64_t>(std::ceil(share * static_cast<double>(recipe_.window)));
    options.end = EpochEnd::kExact;
    options.seed += part;
    found.plan = std::make_unique<PartPlan>(catalogue_, part, options, reading_, supply_);
    found.epoch = epoch;
  }
  return *found.plan;
}

}  // namespace millrace::loader
