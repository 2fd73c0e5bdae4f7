// How well an order is shuffled: numbers computed before training, each beside what a perfect shuffle gives.
//
// Displacement: how far samples move from their place in the data set, as a share of its length; 1/3 for a
// uniformly random order. Neighbour entropy: how unpredictable the distance between samples that follow each
// other is, in bits over 64 equal classes of distance; the ideal is that of two random places. Label mixing:
// how far the labels in a batch are from the whole set's, as total variation distance; the ideal is what
// batches drawn at random have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "loader/order.h"

namespace millrace::loader {

struct Measure {
  double value = 0;
  double ideal = 0;
};
struct ShuffleQuality {
  Measure displacement;
  Measure neighbour_entropy;
  std::optional<Measure> label_distance;  // where labels were given
};

// Of a permutation, in bits.
double neighbour_entropy(const std::vector<uint64_t>& order);
// `labels`: one per sample in the data set's own order, or empty. Memory: 8 bytes per sample.
Result<ShuffleQuality> measure_shuffle(const Order& order, const std::vector<int64_t>& labels);
Result<std::string> shuffle_quality_json(const Order& order, const std::vector<int64_t>& labels);

}  // namespace millrace::loader
