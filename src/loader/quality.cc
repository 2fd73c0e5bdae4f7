// Measures an order by walking it once, and a perfect one of the same size beside it.
#include "loader/quality.h"

#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/random.h"

namespace millrace::loader {

namespace {

constexpr size_t kClasses = 64;

std::vector<uint64_t> walk(const Order& order) {
  // Where each shard begins in the data set; shards are numbered in its order.
  std::map<uint32_t, uint64_t> sizes;
  for (uint64_t place = 0; place < order.samples(); place = order.shard_end(place))
    sizes[order.at(place).shard] = order.shard_end(place) - place;
  std::map<uint32_t, uint64_t> starts;
  uint64_t start = 0;
  for (const auto& [shard, size] : sizes) {
    starts[shard] = start;
    start += size;
  }
  std::vector<uint64_t> found;
  found.reserve(order.samples());
  BatchWalker walker(order);
  for (uint64_t batch = 0; batch < order.batches(); ++batch) {
    for (const SampleRef sample : walker.samples(batch))
      found.push_back(starts[sample.shard] + sample.ordinal);
  }
  return found;
}

double displacement(const std::vector<uint64_t>& order) {
  double total = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const double moved = static_cast<double>(order[i]) - static_cast<double>(i);
    total += std::abs(moved);
  }
  return total / static_cast<double>(order.size()) / static_cast<double>(order.size());
}

double label_distance(const std::vector<uint64_t>& order, const std::vector<int64_t>& labels,
                      uint64_t batch) {
  std::map<int64_t, double> whole;
  for (const int64_t label : labels) whole[label] += 1.0 / static_cast<double>(labels.size());
  double total = 0;
  uint64_t batches = 0;
  for (size_t first = 0; first + batch <= order.size(); first += batch, ++batches) {
    std::map<int64_t, double> here;
    for (size_t i = first; i < first + batch; ++i) here[labels[order[i]]] += 1.0 / static_cast<double>(batch);
    double distance = 0;
    for (const auto& [label, share] : whole) {
      const auto found = here.find(label);
      distance += std::abs(share - (found == here.end() ? 0 : found->second));
    }
    total += distance / 2;
  }
  return batches == 0 ? 0 : total / static_cast<double>(batches);
}

}  // namespace

double neighbour_entropy(const std::vector<uint64_t>& order) {
  std::array<uint64_t, kClasses> counts{};
  const size_t size = order.size();
  for (size_t i = 1; i < size; ++i) {
    const uint64_t distance = (order[i] + size - order[i - 1]) % size;
    ++counts[distance * kClasses / size];
  }
  double entropy = 0;
  for (const uint64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(size - 1);
    entropy -= share * std::log2(share);
  }
  return entropy;
}

Result<ShuffleQuality> measure_shuffle(const Order& order, const std::vector<int64_t>& labels) {
  if (!labels.empty() && labels.size() != order.samples()) {
    return make_error(Code::kInvalid, "there are {} labels for {} samples", labels.size(), order.samples());
  }
  const std::vector<uint64_t> given = walk(order);
  std::vector<uint64_t> perfect(given.size());
  std::iota(perfect.begin(), perfect.end(), 0);
  Random(order.options().seed + 1).shuffle(std::span(perfect));
  ShuffleQuality quality;
  if (given.size() < 2) return quality;
  quality.displacement = {displacement(given), displacement(perfect)};
  quality.neighbour_entropy = {neighbour_entropy(given), neighbour_entropy(perfect)};
  if (!labels.empty()) {
    const uint64_t batch = order.options().batch;
    quality.label_distance =
        Measure{label_distance(given, labels, batch), label_distance(perfect, labels, batch)};
  }
  return quality;
}

Result<std::string> shuffle_quality_json(const Order& order, const std::vector<int64_t>& labels) {
  const ShuffleQuality quality = MR_TRY(measure_shuffle(order, labels));
  const auto shown = [](const Measure& measure) {
    return nlohmann::ordered_json{{"value", measure.value}, {"ideal", measure.ideal}};
  };
  nlohmann::ordered_json json = {{"displacement", shown(quality.displacement)},
                                 {"neighbour_entropy", shown(quality.neighbour_entropy)}};
  if (quality.label_distance) json["label_distance"] = shown(*quality.label_distance);
  return json.dump();
}

}  // namespace millrace::loader
