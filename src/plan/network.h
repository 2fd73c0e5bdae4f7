// Network: nodes joined by edges of exact capacity, its maximum flow and the cut that limits it.
//
// The flow is Boost.Graph's push-relabel on integers: all capacities times their common denominator. Nothing
// is rounded, so parts that limit together are all in the cut. Pure; a Network belongs to one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/result.h"
#include "plan/rational.h"

namespace millrace::plan {

struct Edge {
  size_t from = 0;
  size_t to = 0;
  std::optional<Rational> capacity;  // nothing: no limit
};

class Network {
 public:
  static constexpr size_t kSource = 0;
  static constexpr size_t kSink = 1;
  static constexpr size_t kMostEdges = 1'000'000;

  size_t add_node() { return nodes_++; }
  size_t add_edge(size_t from, size_t to, std::optional<Rational> capacity = std::nullopt);
  void set_capacity(size_t edge, std::optional<Rational> capacity) {
    edges_[edge].capacity = std::move(capacity);
  }

  size_t nodes() const { return nodes_; }
  const std::vector<Edge>& edges() const { return edges_; }

 private:
  size_t nodes_ = 2;
  std::vector<Edge> edges_;
};

struct Flow {
  bool unlimited = false;  // a way of edges without limits leads from the source to the sink
  Rational value;
  std::vector<Rational> on_edge;
  // The edges that limit, of all smallest cuts the one nearest to the sink; empty where nothing does.
  std::vector<size_t> cut;
};

// From kSource to kSink. Fails only where figures are so fine that their common denominator has 900 bits.
Result<Flow> max_flow(const Network& network);

// Whether any way leads from one node to the other.
bool leads(const Network& network, size_t from, size_t to);

}  // namespace millrace::plan
