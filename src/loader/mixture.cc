// Makes the repeating pattern of a mixture from its weights.
#include "loader/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace millrace::loader {

Result<Mixture> Mixture::make(const std::vector<double>& weights) {
  constexpr size_t kMostParts = 1024;
  if (weights.empty() || weights.size() > kMostParts)
    return make_error(Code::kInvalid, "a mixture has 1 to {} parts, not {}", kMostParts, weights.size());
  double total = 0;
  for (const double weight : weights) {
    if (!(weight > 0) || !std::isfinite(weight))
      return make_error(Code::kInvalid, "the weight {} of a mixture is not above zero", weight);
    total += weight;
  }
  Mixture mixture;
  // Each gets the whole part of its share, and one more goes to those with the largest rest.
  std::vector<std::pair<double, size_t>> rests;
  for (size_t part = 0; part < weights.size(); ++part) {
    const double exact = weights[part] / total * kPattern;
    const auto whole = std::max<uint64_t>(static_cast<uint64_t>(exact), 1);
    mixture.shares_.push_back(whole);
    rests.emplace_back(static_cast<double>(whole) - exact, part);
  }
  std::sort(rests.begin(), rests.end());
  uint64_t given = std::accumulate(mixture.shares_.begin(), mixture.shares_.end(), uint64_t{0});
  for (size_t i = 0; given < kPattern; ++i, ++given) ++mixture.shares_[rests[i % rests.size()].second];
  // Parts too small for the pattern were given more than their share: the largest pays.
  for (; given > kPattern; --given) --*std::max_element(mixture.shares_.begin(), mixture.shares_.end());

  std::vector<uint64_t> used(weights.size());
  mixture.counts_.resize(weights.size());
  for (uint64_t place = 0; place < kPattern; ++place) {
    size_t next = 0;
    for (size_t part = 0; part < weights.size(); ++part) {
      mixture.counts_[part].push_back(static_cast<uint32_t>(used[part]));
      // The one whose next element is due first: (used + 1) / share, compared without dividing.
      if ((used[part] + 1) * mixture.shares_[next] < (used[next] + 1) * mixture.shares_[part]) next = part;
    }
    mixture.pattern_.push_back(static_cast<uint16_t>(next));
    ++used[next];
  }
  return mixture;
}

uint64_t Mixture::before(size_t part, uint64_t element) const {
  return element / kPattern * shares_[part] + counts_[part][element % kPattern];
}

}  // namespace millrace::loader
