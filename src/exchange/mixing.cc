// Measures the mixing of epochs, and of the same samples shuffled globally beside them.
#include "exchange/mixing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace millrace::exchange {

namespace {

uint64_t count_samples(const Ranks& ranks) {
  uint64_t count = 0;
  for (const auto& held : ranks) count += held.size();
  return count;
}

// Of two variables that are each spread evenly from 0 to 1: their variance is 1/12.
double correlate(double sum_of_products, double sum_of_both, uint64_t count) {
  const double mean = sum_of_both / 2 / static_cast<double>(count);
  return 12 * (sum_of_products / static_cast<double>(count) - mean * mean);
}

}  // namespace

MixingMeter::MixingMeter(const Ranks& ranks, MixingOptions options)
    : options_(options),
      samples_(count_samples(ranks)),
      ranks_(static_cast<uint32_t>(ranks.size())),
      labels_(samples_, kNoLabel),
      batches_(samples_, options.watched, options.seed),
      holders_(samples_, options.watched, options.seed),
      seen_(holders_.ids().size()) {
  for (const auto& held : ranks) {
    for (const Resident& one : held) {
      labels_[one.id] = one.label;
      if (one.label != kNoLabel) classes_ = std::max(classes_, one.label + 1);
    }
  }
}

double MixingMeter::entropy_of(const std::vector<uint32_t>& counts) const {
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  double bits = 0;
  for (const uint32_t count : counts) {
    if (count > 0) bits -= count / all * std::log2(count / all);
  }
  return bits;
}

void MixingMeter::add(Sums& sums, const Walks& walks) const {
  std::vector<uint64_t> order;
  order.reserve(samples_);
  size_t longest = 0;
  for (const auto& walk : walks) longest = std::max(longest, walk.size());
  double local = 0;
  double global = 0;
  uint64_t local_batches = 0;
  uint64_t global_batches = 0;
  for (size_t first = 0; first < longest; first += options_.batch) {
    std::vector<uint32_t> together(classes_);
    for (const auto& walk : walks) {
      std::vector<uint32_t> counts(classes_);
      const size_t end = std::min(walk.size(), first + options_.batch);
      for (size_t i = first; i < end; ++i) {
        order.push_back(walk[i]);
        if (labels_[walk[i]] == kNoLabel) continue;
        ++counts[labels_[walk[i]]];
        ++together[labels_[walk[i]]];
      }
      if (first + options_.batch > walk.size()) continue;
      local += entropy_of(counts);
      ++local_batches;
    }
    // Short batches have less entropy.
    if (first + options_.batch > longest && first > 0) continue;
    global += entropy_of(together);
    ++global_batches;
  }
  sums.local_entropy += local / static_cast<double>(std::max<uint64_t>(local_batches, 1));
  sums.global_entropy += global / static_cast<double>(std::max<uint64_t>(global_batches, 1));
  sums.neighbour_entropy += loader::neighbour_entropy(order);
}

MixingMeter::Walks MixingMeter::shuffle_globally(const Walks& like, uint64_t epoch) const {
  std::vector<uint64_t> all(samples_);
  std::iota(all.begin(), all.end(), 0);
  Random(mix(options_.seed) + epoch).shuffle(std::span(all));
  Walks walks;
  auto next = all.begin();
  for (const auto& walk : like) {
    walks.emplace_back(next, next + static_cast<ptrdiff_t>(walk.size()));
    next += static_cast<ptrdiff_t>(walk.size());
  }
  return walks;
}

void MixingMeter::compare_orders(const Walks& walks) {
  std::vector<double> places(samples_);
  std::vector<uint64_t> followers(samples_, UINT64_MAX);
  for (const auto& walk : walks) {
    for (size_t i = 0; i < walk.size(); ++i) {
      places[walk[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(walk.size());
      if (i + 1 < walk.size()) followers[walk[i]] = walk[i + 1];
    }
  }
  if (epochs_ > 0) {
    double products = 0;
    double both = 0;
    uint64_t kept = 0;
    for (uint64_t id = 0; id < samples_; ++id) {
      products += places[id] * places_[id];
      both += places[id] + places_[id];
      kept += followers[id] != UINT64_MAX && followers[id] == followers_[id] ? 1 : 0;
    }
    correlation_ += correlate(products, both, samples_);
    kept_ += static_cast<double>(kept) / static_cast<double>(samples_);
  }
  places_ = std::move(places);
  followers_ = std::move(followers);
}

void MixingMeter::add_epoch(const Ranks& ranks, uint64_t epoch) {
  Walks walks;
  std::vector<uint32_t> holder(samples_);
  std::vector<uint64_t> batch(samples_);
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& held = ranks[rank];
    auto& walk = walks.emplace_back();
    for (const uint32_t slot : local_order(options_.seed, epoch, rank, static_cast<uint32_t>(held.size()))) {
      holder[held[slot].id] = rank;
      batch[held[slot].id] = walk.size() / options_.batch;
      walk.push_back(held[slot].id);
    }
  }
  compare_orders(walks);
  add(found_, walks);
  add(ideal_, shuffle_globally(walks, epoch));
  batches_.add_round([&](uint64_t id) { return batch[id]; });
  holders_.add_round([&](uint64_t id) { return holder[id]; });
  for (size_t i = 0; i < seen_.size(); ++i) seen_[i].insert(holder[holders_.ids()[i]]);
  ++epochs_;
}

MixingFigures MixingMeter::figures() const {
  const auto epochs = static_cast<double>(epochs_);
  const double pairs_of_epochs = std::max(1.0, epochs - 1);
  MixingFigures figures;
  if (classes_ > 0) {
    figures.label_entropy = {found_.local_entropy / epochs, ideal_.local_entropy / epochs};
    figures.global_label_entropy = {found_.global_entropy / epochs, ideal_.global_entropy / epochs};
  }
  figures.neighbour_entropy = {found_.neighbour_entropy / epochs, ideal_.neighbour_entropy / epochs};
  figures.pairs_in_batches = {batches_.dispersion(), 1};
  figures.pairs_on_ranks = {holders_.dispersion(), 1};
  figures.order_correlation = {correlation_ / pairs_of_epochs, 0};
  figures.neighbours_kept = {kept_ / pairs_of_epochs, 1 / std::max(1.0, static_cast<double>(samples_) - 1)};
  double seen = 0;
  for (const auto& ranks : seen_) seen += static_cast<double>(ranks.size());
  const double world = ranks_;
  figures.ranks_seen = {seen / static_cast<double>(std::max<size_t>(seen_.size(), 1)),
                        world * (1 - std::pow(1 - 1 / world, epochs))};
  return figures;
}

}  // namespace millrace::exchange
