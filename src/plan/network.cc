// Computes the maximum flow with Boost.Graph and reads the cut off the residual network.
#include "plan/network.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include "base/assert.h"

namespace millrace::plan {

namespace {

// Of fixed size because push-relabel asks for the largest value of its type.
using Amount = boost::multiprecision::number<
    boost::multiprecision::cpp_int_backend<1024, 1024, boost::multiprecision::signed_magnitude,
                                           boost::multiprecision::unchecked, void>,
    boost::multiprecision::et_off>;
constexpr unsigned kMostBits = 900;

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Link {
  Amount capacity = 0;
  Amount residual = 0;
  Traits::edge_descriptor reverse;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Link>;

struct Scale {
  Integer denominator = 1;  // of all capacities
  Integer unlimited = 1;    // more than all limited edges together
};

Result<Scale> find_scale(const Network& network) {
  Scale scale;
  for (const Edge& edge : network.edges()) {
    if (!edge.capacity) continue;
    scale.denominator =
        boost::multiprecision::lcm(scale.denominator, boost::multiprecision::denominator(*edge.capacity));
    if (boost::multiprecision::msb(scale.denominator) > kMostBits)
      return make_error(Code::kUnsupported, "the figures have no common denominator below 2^{}", kMostBits)
          .with_hint("write rates and sizes with fewer digits");
  }
  for (const Edge& edge : network.edges()) {
    if (edge.capacity)
      scale.unlimited += boost::multiprecision::numerator(*edge.capacity * scale.denominator);
  }
  if (boost::multiprecision::msb(scale.unlimited) > kMostBits + 64)
    return make_error(Code::kUnsupported, "the figures are too large and too fine at once")
        .with_hint("write rates and sizes with fewer digits");
  return scale;
}

// Which nodes still reach the sink.
std::vector<bool> find_sink_side(const Graph& graph) {
  std::vector<bool> found(boost::num_vertices(graph), false);
  std::vector<size_t> todo = {Network::kSink};
  found[Network::kSink] = true;
  while (!todo.empty()) {
    const size_t node = todo.back();
    todo.pop_back();
    for (const auto& away : boost::make_iterator_range(boost::out_edges(node, graph))) {
      const size_t before = boost::target(away, graph);
      if (found[before] || graph[graph[away].reverse].residual == 0) continue;
      found[before] = true;
      todo.push_back(before);
    }
  }
  return found;
}

}  // namespace

size_t Network::add_edge(size_t from, size_t to, std::optional<Rational> capacity) {
  MR_ASSERT(from < nodes_ && to < nodes_ && from != to && edges_.size() < kMostEdges);
  edges_.push_back({from, to, std::move(capacity)});
  return edges_.size() - 1;
}

Result<Flow> max_flow(const Network& network) {
  const Scale scale = MR_TRY(find_scale(network));
  Graph graph(network.nodes());
  std::vector<Traits::edge_descriptor> links;
  for (const Edge& edge : network.edges()) {
    const auto there = boost::add_edge(edge.from, edge.to, graph).first;
    const auto back = boost::add_edge(edge.to, edge.from, graph).first;
    graph[there].capacity = edge.capacity
                                ? Amount(boost::multiprecision::numerator(*edge.capacity * scale.denominator))
                                : Amount(scale.unlimited);
    graph[there].reverse = back;
    graph[back].reverse = there;
    links.push_back(there);
  }
  const Amount value =
      boost::push_relabel_max_flow(graph, Network::kSource, Network::kSink,
                                   boost::get(&Link::capacity, graph), boost::get(&Link::residual, graph),
                                   boost::get(&Link::reverse, graph), boost::get(boost::vertex_index, graph));
  Flow flow;
  flow.unlimited = Integer(value) >= scale.unlimited;
  flow.value = Rational(Integer(value), scale.denominator);
  for (const auto& link : links)
    flow.on_edge.push_back(Rational(Integer(graph[link].capacity - graph[link].residual), scale.denominator));
  if (flow.unlimited) return flow;
  const std::vector<bool> sink_side = find_sink_side(graph);
  for (size_t edge = 0; edge < network.edges().size(); ++edge) {
    if (!sink_side[network.edges()[edge].from] && sink_side[network.edges()[edge].to])
      flow.cut.push_back(edge);
  }
  return flow;
}

bool leads(const Network& network, size_t from, size_t to) {
  std::vector<std::vector<size_t>> next(network.nodes());
  for (const Edge& edge : network.edges()) next[edge.from].push_back(edge.to);
  std::vector<bool> seen(network.nodes(), false);
  std::vector<size_t> todo = {from};
  while (!todo.empty()) {
    const size_t node = todo.back();
    todo.pop_back();
    if (node == to) return true;
    if (seen[node]) continue;
    seen[node] = true;
    todo.insert(todo.end(), next[node].begin(), next[node].end());
  }
  return false;
}

}  // namespace millrace::plan
