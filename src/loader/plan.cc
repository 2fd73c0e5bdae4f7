// Implements Planner: puts batches together from one data set or from a mixture.
#include "loader/plan.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/random.h"

namespace millrace::loader {

namespace {

// One request: long enough that its latency does not matter, short enough to share fairly.
constexpr uint64_t kMostChunkBytes = 2 << 20;
constexpr uint64_t kMostFileChunkBytes = 256 << 10;  // files answer at once
constexpr uint64_t kLeastChunkBytes = 64 << 10;

double mean_bytes(uint64_t bytes, uint64_t samples) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(samples, 1));
}

uint64_t bytes_of(uint64_t samples, double each) {
  return static_cast<uint64_t>(static_cast<double>(samples) * each);
}

// Of all that lends fields to one sample.
double column_bytes_per_sample(const Catalogue& catalogue) {
  uint64_t bytes = 0;
  for (size_t i = catalogue.parts().back(); i < catalogue.shards().size(); ++i)
    bytes += catalogue.shards()[i].index->tar_bytes();
  return mean_bytes(bytes, catalogue.samples());
}

// Half of the memory is for bytes that wait for their turn: the windows, and about one chunk at either end of
// every lane. Samples in buckets wait for the others of their pool too; a shelf gets a quarter more, since
// sizes are not equal everywhere.
Reading choose_reading(const Catalogue& catalogue, const Recipe& recipe, uint64_t world) {
  const uint64_t half = recipe.memory / 2;
  const double sample_bytes = mean_bytes(catalogue.bytes(), catalogue.samples());
  const double column_bytes = column_bytes_per_sample(catalogue);
  const uint64_t window_samples = std::min(recipe.window, catalogue.samples());
  const uint64_t window = bytes_of(window_samples, sample_bytes / static_cast<double>(world));
  const uint64_t lanes = std::max<uint64_t>(recipe.batch / Order::kElementsPerLane / world, 1);
  Reading reading;
  reading.by_sample = window > half;
  const uint64_t left = half - std::min(window, half);
  const uint64_t most = catalogue.is_local() ? kMostFileChunkBytes : kMostChunkBytes;
  reading.chunk_bytes = std::clamp(left / (2 * lanes), kLeastChunkBytes, most);
  const uint64_t ends = 2 * lanes * reading.chunk_bytes;
  if (recipe.bucket_by.empty()) {
    const uint64_t near = bytes_of(window_samples, 1.25 * column_bytes / static_cast<double>(world)) + ends;
    if (column_bytes > 0 && !reading.by_sample && near <= left) reading.column_bytes = near;
    return reading;
  }
  // Every rank takes its part of every bucket, so what lies around its samples mostly belongs to others.
  if (world > 1) return reading;
  const uint64_t pool_samples = std::min(recipe.bucket_batches, catalogue.samples()) * recipe.batch;
  const uint64_t near_samples = std::min(window_samples + pool_samples, catalogue.samples());
  const uint64_t near = bytes_of(near_samples, 1.25 * sample_bytes) + ends;
  const uint64_t near_columns = bytes_of(near_samples, 1.25 * column_bytes) + ends;
  if (near <= half) reading.bucket_bytes = near;
  if (column_bytes > 0 && near + near_columns <= half) reading.column_bytes = near_columns;
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
      parts_(recipe.weights.empty() ? 1 : recipe.weights.size()),
      // The first batch of a pool touches most of its chunks: small ones, or it would wait for all of them.
      bucket_shelf_(catalogue, {std::min(reading_.chunk_bytes, kMostFileChunkBytes), reading_.bucket_bytes},
                    supply_),
      column_shelf_(catalogue, {reading_.chunk_bytes, reading_.column_bytes}, supply_) {
  if (recipe.weights.empty()) {
    parts_[0].plan =
        std::make_unique<PartPlan>(catalogue, 0, options_of(recipe, place.epoch), reading_, supply_);
  } else {
    mixture_ = Mixture::make(recipe.weights).take();
  }
}

Result<std::optional<BatchPlan>> Planner::next() {
  if (batch_ >= batches_) return std::optional<BatchPlan>();
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
    if (recipe_.bucket_by.empty()) {
      only.take(batch_, mine, plan.elements);
    } else {
      take_bucketed(mine, plan.elements);
    }
  }
  for (Element& element : plan.elements) {
    if (!element.chunk) continue;
    for (const SampleRef lent : catalogue_.columns_of(element.sample))
      element.columns.push_back(column_shelf_.take(lent));
  }
  for (const Element& element : plan.elements) plan.bytes += element.size;
  batch_ += place_.step;
  return std::optional(std::move(plan));
}

void Planner::take_bucketed(Slice mine, std::vector<Element>& into) {
  if (batch_ / recipe_.bucket_batches != pool_) arrange_buckets(batch_ / recipe_.bucket_batches);
  const std::vector<SampleRef>& bucket = buckets_[batch_ % recipe_.bucket_batches];
  for (uint64_t i = 0; i < mine.size; ++i) into[i] = bucket_shelf_.take(bucket[mine.first + i]);
}

// The samples of a pool of batches by size, cut into batches again, which come in random order. The last
// batch of an epoch stays what it is: it may be shorter than the others.
void Planner::arrange_buckets(uint64_t pool) {
  const Order& order = parts_[0].plan->order();
  const uint64_t first = pool * recipe_.bucket_batches;
  const uint64_t end = std::min(first + recipe_.bucket_batches, batches_);
  BatchWalker walker(order);
  struct Sized {
    uint64_t size;
    size_t came;
    SampleRef sample;
  };
  std::vector<Sized> sized;
  pool_ = pool;
  buckets_.clear();
  std::vector<SampleRef> last;
  for (uint64_t batch = first; batch < end; ++batch) {
    const std::vector<SampleRef> samples = walker.samples(batch);
    if (batch + 1 == batches_) {
      last = samples;
      break;
    }
    for (const SampleRef sample : samples) {
      uint64_t size = 0;
      const Shard& shard = catalogue_.shards()[sample.shard];
      for (const std::string& field : recipe_.bucket_by) {
        const auto found = shard.index->find_field(shard.ordinal(sample.ordinal), field);
        if (!found) continue;
        size = found->size;
        break;
      }
      sized.push_back({size, sized.size(), sample});
    }
  }
  // Equal sizes stay in the order they came.
  std::sort(sized.begin(), sized.end(), [](const Sized& a, const Sized& b) {
    return std::pair(a.size, a.came) < std::pair(b.size, b.came);
  });
  for (size_t at = 0; at < sized.size(); at += recipe_.batch) {
    std::vector<SampleRef>& bucket = buckets_.emplace_back();
    for (size_t i = at; i < at + recipe_.batch; ++i) bucket.push_back(sized[i].sample);
  }
  Random(mix(mix(recipe_.seed) + place_.epoch) + pool).shuffle(std::span(buckets_));
  if (!last.empty()) buckets_.push_back(std::move(last));
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
