// Takes the holders of a name one by one: fewest slices on the node first, then in the zone.
#include "cluster/placement.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace millrace::cluster {

namespace {

// How many holders each number has so far.
class Tally {
 public:
  explicit Tally(size_t numbers) : counts_(numbers) {}
  uint32_t of(uint32_t number) const { return counts_[number]; }
  void add(uint32_t number) { ++counts_[number]; }

 private:
  std::vector<uint32_t> counts_;
};

uint32_t largest(const std::vector<PlacedDrive>& drives, uint32_t PlacedDrive::* number) {
  if (drives.empty()) return 0;
  return std::invoke(number, *std::ranges::max_element(drives, {}, number));
}

}  // namespace

std::vector<size_t> place_holders(uint64_t name, const std::vector<PlacedDrive>& drives, size_t count) {
  std::vector<double> scores;
  scores.reserve(drives.size());
  for (const PlacedDrive& drive : drives) scores.push_back(rendezvous_score(name, drive.target));
  Tally nodes(largest(drives, &PlacedDrive::node) + 1);
  Tally zones(largest(drives, &PlacedDrive::zone) + 1);
  std::vector<bool> taken(drives.size());
  std::vector<size_t> holders;
  count = std::min(count, drives.size());
  while (holders.size() < count) {
    size_t best = drives.size();
    const auto rank = [&](size_t i) {
      return std::tuple(nodes.of(drives[i].node), zones.of(drives[i].zone), -scores[i], drives[i].target.id);
    };
    for (size_t i = 0; i < drives.size(); ++i) {
      if (!taken[i] && (best == drives.size() || rank(i) < rank(best))) best = i;
    }
    taken[best] = true;
    nodes.add(drives[best].node);
    zones.add(drives[best].zone);
    holders.push_back(best);
  }
  return holders;
}

}  // namespace millrace::cluster
