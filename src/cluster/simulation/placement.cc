// How evenly a large cluster's keys are spread, and how much moves when a node is lost or joins.
//
//   placement_simulation --nodes 1000 --drives 12 --keys 50000
//
// The product's maps place a sample of keys. Moved slices are counted against the fewest that could move:
// those of the node that is lost, or those that the new node holds afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <thread>
#include <vector>

#include "base/number.h"
#include "base/random.h"
#include "cluster/map.h"

namespace {

using millrace::cluster::DriveId;
using millrace::cluster::DriveStanding;
using millrace::cluster::Map;
using millrace::cluster::MapNode;

struct Options {
  uint64_t nodes = 1000;
  uint64_t drives = 12;  // of each node
  uint64_t keys = 20'000;
  uint64_t slices = 6;
  uint64_t threads = 2;
};

MapNode make_node(uint32_t number, uint64_t drives) {
  MapNode node;
  node.id = fmt::format("n{}", number);
  node.number = number;
  for (uint64_t i = 0; i < drives; ++i)
    node.drives.push_back({fmt::format("n{}-d{}", number, i), 1.0, DriveStanding::kServing});
  return node;
}

using Placements = std::vector<std::vector<DriveId>>;

// Of every sampled key.
Placements place_all(const Map& map, const Options& options) {
  Placements placements(options.keys);
  std::vector<std::jthread> threads;
  for (uint64_t thread = 0; thread < options.threads; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t key = thread; key < options.keys; key += options.threads)
        placements[key] = map.place(millrace::mix(key), options.slices);
    });
  }
  threads.clear();
  return placements;
}

// The deviation of one drive from its share, in percent: what was seen, and what chance alone would give.
void tell_spread(const Placements& placements, const Options& options) {
  std::map<DriveId, uint64_t> counts;
  uint64_t all = 0;
  for (const auto& holders : placements) {
    for (const DriveId drive : holders) ++counts[drive];
    all += holders.size();
  }
  const double drives = static_cast<double>(options.nodes * options.drives);
  const double mean = static_cast<double>(all) / drives;
  double squares = mean * mean * (drives - static_cast<double>(counts.size()));
  for (const auto& [drive, count] : counts) {
    const double away = static_cast<double>(count) - mean;
    squares += away * away;
  }
  fmt::print("spread: {:.1f} slices a drive, standard deviation {:.2f} %, by chance alone {:.2f} %\n", mean,
             100 * std::sqrt(squares / drives) / mean, 100 / std::sqrt(mean));
}

void tell_moved(std::string_view what, const Placements& before, const Placements& after, const Map& changed,
                uint32_t node) {
  uint64_t moved = 0;
  uint64_t least = 0;
  for (size_t key = 0; key < before.size(); ++key) {
    for (const DriveId drive : after[key]) {
      if (!millrace::cluster::contains(before[key], drive)) ++moved;
    }
    // The map that has the node says which slices are its own.
    const auto is_its = [&](DriveId drive) {
      const MapNode* const owner = changed.node_of(drive);
      return owner != nullptr && owner->number == node;
    };
    const auto own =
        std::max(std::ranges::count_if(before[key], is_its), std::ranges::count_if(after[key], is_its));
    least += static_cast<uint64_t>(own);
  }
  fmt::print("{}: {} slices moved, {} at least: {:.4f}\n", what, moved, least,
             static_cast<double>(moved) / static_cast<double>(least));
}

void run(const Options& options) {
  std::vector<MapNode> nodes;
  for (uint32_t number = 1; number <= options.nodes + 1; ++number)
    nodes.push_back(make_node(number, options.drives));
  const Map grown("c", 3, 1, nodes);
  nodes.pop_back();
  const Map whole("c", 1, 1, nodes);
  nodes.front().state = millrace::cluster::NodeState::kGone;
  const Map shrunk("c", 2, 1, nodes);

  fmt::print("{} nodes with {} drives, {} keys of {} slices\n", options.nodes, options.drives, options.keys,
             options.slices);
  const Placements before = place_all(whole, options);
  tell_spread(before, options);
  tell_moved("a node is lost", before, place_all(shrunk, options), whole, 1);
  tell_moved("a node joins", before, place_all(grown, options), grown,
             static_cast<uint32_t>(options.nodes + 1));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const std::map<std::string_view, uint64_t*> numbers = {{"--nodes", &options.nodes},
                                                         {"--drives", &options.drives},
                                                         {"--keys", &options.keys},
                                                         {"--slices", &options.slices},
                                                         {"--threads", &options.threads}};
  for (int i = 1; i < argc; i += 2) {
    const auto flag = numbers.find(argv[i]);
    const auto number = i + 1 < argc ? millrace::parse_number<uint64_t>(argv[i + 1]) : std::nullopt;
    if (flag == numbers.end() || !number || *number == 0) {
      fmt::print(
          stderr,
          "usage: placement_simulation [--nodes N] [--drives N] [--keys N] [--slices N] [--threads N]\n");
      return 2;
    }
    *flag->second = *number;
  }
  run(options);
  return 0;
}
