// Takes a flow on edges apart into ways, and groups ways into ribbons between resources.
#include <algorithm>
#include <map>

#include "plan/picture.h"
#include "plan/ways.h"

namespace millrace::plan {

namespace {

class Peeler {
 public:
  explicit Peeler(const Check& check)
      : network_(check.path.network), left_(check.flow.on_edge), out_(network_.nodes()) {
    for (size_t edge = 0; edge < network_.edges().size(); ++edge)
      out_[network_.edges()[edge].from].push_back(edge);
    for (size_t at = 0; at < check.path.resources.size(); ++at)
      resource_of_[check.path.resources[at].edge] = at;
  }

  // Each round empties at least one edge, so this ends.
  std::vector<Way> peel() {
    std::vector<Way> ways;
    while (true) {
      const std::vector<size_t> edges = walk();
      if (edges.empty()) return ways;
      Rational least = left_[edges[0]];
      for (const size_t edge : edges) least = std::min(least, left_[edge]);
      for (const size_t edge : edges) left_[edge] -= least;
      if (network_.edges()[edges.back()].to != Network::kSink) continue;
      Way way;
      way.samples_per_second = least;
      for (const size_t edge : edges) {
        if (const auto resource = resource_of_.find(edge); resource != resource_of_.end())
          way.resources.push_back(resource->second);
      }
      ways.push_back(std::move(way));
    }
  }

 private:
  // To the sink, or round a circle.
  std::vector<size_t> walk() const {
    std::vector<size_t> way;
    std::map<size_t, size_t> seen;  // node -> how long the way was there
    size_t node = Network::kSource;
    while (node != Network::kSink) {
      if (const auto before = seen.find(node); before != seen.end())
        return {way.begin() + static_cast<std::ptrdiff_t>(before->second), way.end()};
      seen[node] = way.size();
      const auto next =
          std::find_if(out_[node].begin(), out_[node].end(), [this](size_t edge) { return left_[edge] > 0; });
      if (next == out_[node].end()) return {};  // nothing is left at the source
      way.push_back(*next);
      node = network_.edges()[*next].to;
    }
    return way;
  }

  const Network& network_;
  std::vector<Rational> left_;
  std::vector<std::vector<size_t>> out_;
  std::map<size_t, size_t> resource_of_;  // by edge
};

}  // namespace

std::vector<Way> find_ways(const Check& check) {
  std::vector<Way> ways = Peeler(check).peel();
  for (Way& way : ways) {
    way.share = to_double(way.samples_per_second / check.samples_per_second);
    for (const size_t at : way.resources) {
      const Stage stage = check.path.resources[at].stage;
      if (stage > Stage::kCpuIn && stage != Stage::kGpuIn) break;
      ++way.arrival;
    }
  }
  return ways;
}

std::vector<Ribbon> ribbons(const Check& check) {
  std::map<std::pair<size_t, size_t>, Rational> amounts;
  for (const Way& way : find_ways(check)) {
    for (size_t at = 1; at < way.resources.size(); ++at)
      amounts[{way.resources[at - 1], way.resources[at]}] += way.samples_per_second;
  }
  std::vector<Ribbon> ribbons;
  for (const auto& [ends, amount] : amounts) ribbons.push_back({ends.first, ends.second, amount});
  return ribbons;
}

std::vector<size_t> columns(const Check& check) {
  std::vector<size_t> columns;
  size_t column = 0;
  for (size_t at = 0; at < check.path.resources.size(); ++at) {
    const Resource& one = check.path.resources[at];
    if (at > 0) {
      const Resource& before = check.path.resources[at - 1];
      if (before.stage != one.stage || before.order != one.order) ++column;
    }
    columns.push_back(column);
  }
  return columns;
}

}  // namespace millrace::plan
