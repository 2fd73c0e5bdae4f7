// Implements StreamPlan: copies one stream of samples into chunks that are full from the start.
#include "loader/stream_plan.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/random.h"

namespace millrace::loader {

namespace {

std::vector<uint32_t> deal_shards(const Catalogue& catalogue, const Recipe& recipe,
                                  const Planner::Place& place) {
  std::vector<uint32_t> all(catalogue.shards().size());
  std::iota(all.begin(), all.end(), 0U);
  if (recipe.window > 0) Random(mix(mix(recipe.seed) + place.epoch)).shuffle(std::span(all));
  std::vector<uint32_t> mine;
  for (size_t i = place.rank; i < all.size(); i += place.world) mine.push_back(all[i]);
  return mine;
}

}  // namespace

StreamPlan::StreamPlan(const Catalogue& catalogue, const Recipe& recipe, const Planner::Place& place,
                       const Supply& supply)
    : recipe_(recipe),
      place_(place),
      supply_(supply),
      shards_(deal_shards(catalogue, recipe, place)),
      batch_size_(recipe.batch * (place.rank + 1) / place.world - recipe.batch * place.rank / place.world) {
  std::vector<std::string> names;
  for (const uint32_t shard : shards_) names.push_back(catalogue.shards()[shard].name());
  shard::InputOptions options;
  options.stores = &supply.fetcher.stores();
  options.heard = [&fetcher = supply.fetcher](const std::string& name, const auto& headers) {
    fetcher.heard(name, headers);
  };
  options.read.group.key_rule = catalogue.key_rule();
  samples_ = std::make_unique<shard::InputStream>(std::move(names), options);
  if (recipe.window == 0) return;
  shard::ShuffleBuffer buffer;
  buffer.samples = std::max<uint64_t>(recipe.window / place.world, 1);
  buffer.bytes = recipe.memory / 2;
  buffer.key_rule = catalogue.key_rule();
  buffer.seed = mix(mix(mix(recipe.seed) + place.epoch) + place.rank);
  samples_ = std::make_unique<shard::ShuffleStream>(std::move(samples_), buffer);
}

void StreamPlan::hint_behind(size_t input) {
  constexpr size_t kAhead = 4;
  for (; hinted_ < std::min(shards_.size(), input + 1 + kAhead); ++hinted_)
    supply_.fetcher.hint(shards_[hinted_]);
}

Result<bool> StreamPlan::add_sample(BatchPlan& plan) {
  const tar::Sample* sample = MR_TRY(samples_->next());
  if (sample == nullptr) return false;
  const shard::SampleStream::Origin origin = samples_->origin();
  hint_behind(origin.input);
  Element element;
  element.sample = {shards_[origin.input], origin.ordinal};
  element.chunk = std::make_shared<Chunk>(supply_.pool);
  std::string blocks;
  MR_TRY(tar::append_blocks(blocks, *sample));
  std::memcpy(element.chunk->reserve(blocks.size()).data(), blocks.data(), blocks.size());
  element.chunk->succeed();
  element.size = blocks.size();
  element.key_hash = sample->key_hash;
  for (const FieldSpec& field : recipe_.fields) {
    const tar::Field* found = nullptr;
    for (const std::string& wanted : field.any_of) {
      if (found == nullptr) found = sample->find(wanted);
    }
    element.field_bytes.push_back(found == nullptr ? 0 : found->bytes.size());
  }
  plan.bytes += element.size;
  plan.elements.push_back(std::move(element));
  return true;
}

Result<std::optional<BatchPlan>> StreamPlan::next() {
  while (true) {
    BatchPlan plan{place_.epoch, batch_, {}, 0};
    const bool is_wanted = batch_ >= place_.batch && (batch_ - place_.batch) % place_.step == 0;
    bool more = true;
    uint64_t passed = 0;
    while (more && passed < batch_size_) {
      if (is_wanted) {
        more = MR_TRY(add_sample(plan));
      } else {
        more = MR_TRY(samples_->next()) != nullptr;
      }
      passed += more ? 1 : 0;
    }
    ++batch_;
    const bool is_short = passed < batch_size_;
    if (passed == 0 || (is_short && recipe_.end == EpochEnd::kDrop)) return std::optional<BatchPlan>();
    if (!is_wanted) continue;
    for (size_t i = 0; is_short && recipe_.end == EpochEnd::kPad && plan.elements.size() < batch_size_; ++i)
      plan.elements.push_back(plan.elements[i]);
    return std::optional(std::move(plan));
  }
}

}  // namespace millrace::loader
