// Computes scores of the form -weight / ln(u): the best score falls on a drive with a chance proportional to
// its weight.
#include "base/rendezvous.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/random.h"

namespace millrace {

double rendezvous_score(uint64_t name, const Target& target) {
  // In (0, 1): 53 bits and a half, so that the logarithm is finite and never zero.
  const double unit = (static_cast<double>(mix(name ^ target.id) >> 11) + 0.5) * 0x1.0p-53;
  return -target.weight / std::log(unit);
}

uint64_t name_hash(std::string_view bucket, std::string_view key) {
  return hash64(key, hash64(bucket));
}

std::vector<size_t> rendezvous_order(uint64_t name, const std::vector<Target>& targets) {
  std::vector<std::pair<double, size_t>> scores;
  scores.reserve(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) scores.emplace_back(-rendezvous_score(name, targets[i]), i);
  std::ranges::sort(scores);
  std::vector<size_t> order;
  order.reserve(scores.size());
  for (const auto& [negative, position] : scores) order.push_back(position);
  return order;
}

size_t rendezvous_first(uint64_t name, const std::vector<Target>& targets) {
  size_t best = 0;
  double best_score = -1.0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const double now = rendezvous_score(name, targets[i]);
    if (now > best_score) {
      best_score = now;
      best = i;
    }
  }
  return best;
}

}  // namespace millrace
