// The flow against another algorithm and against every possible cut.
#include "plan/network.h"

#include <gtest/gtest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>

#include "base/random.h"

namespace millrace::plan {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Link {
  int64_t capacity = 0;
  int64_t residual = 0;
  Traits::edge_descriptor reverse;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Link>;

constexpr int64_t kParts = 60;  // capacities of the random networks are sixtieths

int64_t flow_by_augmenting_paths(const Network& network) {
  Graph graph(network.nodes());
  for (const Edge& edge : network.edges()) {
    const auto there = boost::add_edge(edge.from, edge.to, graph).first;
    const auto back = boost::add_edge(edge.to, edge.from, graph).first;
    graph[there].capacity =
        edge.capacity ? static_cast<int64_t>(boost::multiprecision::numerator(*edge.capacity * kParts))
                      : 1'000'000'000;
    graph[there].reverse = back;
    graph[back].reverse = there;
  }
  std::vector<boost::default_color_type> colours(network.nodes());
  std::vector<Traits::edge_descriptor> before(network.nodes());
  return boost::edmonds_karp_max_flow(graph, Network::kSource, Network::kSink,
                                      boost::capacity_map(boost::get(&Link::capacity, graph))
                                          .residual_capacity_map(boost::get(&Link::residual, graph))
                                          .reverse_edge_map(boost::get(&Link::reverse, graph))
                                          .color_map(boost::make_iterator_property_map(
                                              colours.begin(), boost::get(boost::vertex_index, graph)))
                                          .predecessor_map(boost::make_iterator_property_map(
                                              before.begin(), boost::get(boost::vertex_index, graph))));
}

std::optional<Rational> smallest_of_all_cuts(const Network& network) {
  std::optional<Rational> smallest;
  for (uint32_t side = 0; side < (1U << network.nodes()); ++side) {
    if ((side & 1) == 0 || (side & 2) != 0) continue;
    Rational sum = 0;
    bool limited = true;
    for (const Edge& edge : network.edges()) {
      if ((side >> edge.from & 1) == 0 || (side >> edge.to & 1) != 0) continue;
      if (edge.capacity) sum += *edge.capacity;
      limited = limited && edge.capacity.has_value();
    }
    if (limited && (!smallest || sum < *smallest)) smallest = sum;
  }
  return smallest;
}

Network draw_network(Random& random, size_t nodes, size_t edges) {
  Network network;
  while (network.nodes() < nodes) network.add_node();
  while (network.edges().size() < edges) {
    const size_t from = random.below(nodes), to = random.below(nodes);
    if (from == to) continue;
    if (random.below(20) == 0) {
      network.add_edge(from, to);
    } else {
      network.add_edge(
          from, to,
          Rational(static_cast<int64_t>(random.below(200)), 1 + static_cast<int64_t>(random.below(6))));
    }
  }
  return network;
}

void expect_conserved(const Network& network, const Flow& flow) {
  std::vector<Rational> balance(network.nodes(), 0);
  for (size_t edge = 0; edge < network.edges().size(); ++edge) {
    const Edge& one = network.edges()[edge];
    EXPECT_GE(flow.on_edge[edge], 0);
    if (one.capacity) EXPECT_LE(flow.on_edge[edge], *one.capacity);
    balance[one.from] -= flow.on_edge[edge];
    balance[one.to] += flow.on_edge[edge];
  }
  EXPECT_EQ(balance[Network::kSink], flow.value);
  EXPECT_EQ(balance[Network::kSource], -flow.value);
  for (size_t node = 2; node < network.nodes(); ++node) EXPECT_EQ(balance[node], 0) << "node " << node;
}

TEST(NetworkTest, TheNarrowestOfThreePipesLimits) {
  Network network;
  const size_t a = network.add_node(), b = network.add_node();
  network.add_edge(Network::kSource, a, Rational(5));
  const size_t narrow = network.add_edge(a, b, Rational(7, 3));
  network.add_edge(b, Network::kSink, Rational(4));
  const Flow flow = max_flow(network).take();
  EXPECT_EQ(flow.value, Rational(7, 3));
  EXPECT_EQ(flow.cut, std::vector<size_t>{narrow});
}

TEST(NetworkTest, OfEquallyNarrowCutsTheOneNearestToTheSinkIsNamed) {
  Network network;
  const size_t a = network.add_node();
  network.add_edge(Network::kSource, a, Rational(1, 3));
  const size_t last = network.add_edge(a, Network::kSink, Rational(2, 6));
  EXPECT_EQ(max_flow(network).take().cut, std::vector<size_t>{last});
}

TEST(NetworkTest, WithoutAnyLimitTheFlowIsUnlimitedAndNothingIsCut) {
  Network network;
  const size_t a = network.add_node();
  network.add_edge(Network::kSource, a);
  network.add_edge(a, Network::kSink);
  network.add_edge(Network::kSource, Network::kSink, Rational(12));
  const Flow flow = max_flow(network).take();
  EXPECT_TRUE(flow.unlimited);
  EXPECT_TRUE(flow.cut.empty());
}

TEST(NetworkTest, NoWayMeansNoFlow) {
  Network network;
  const size_t a = network.add_node();
  network.add_edge(Network::kSource, a, Rational(3));
  EXPECT_EQ(max_flow(network).take().value, 0);
  EXPECT_FALSE(leads(network, Network::kSource, Network::kSink));
  EXPECT_TRUE(leads(network, Network::kSource, a));
}

TEST(NetworkTest, FiguresWithoutACommonDenominatorAreRefused) {
  Network network;
  Integer prime_like = (Integer(1) << 61) - 1;
  for (int i = 0; i < 40; ++i) {
    network.add_edge(Network::kSource, Network::kSink, Rational(Integer(1), prime_like));
    prime_like -= 2 * (i + 1);
  }
  const auto flow = max_flow(network);
  ASSERT_FALSE(flow.has_value());
  EXPECT_EQ(flow.error().code(), Code::kUnsupported);
}

TEST(NetworkTest, RandomNetworksFlowAsAugmentingPathsSayAndTheCutIsAsLargeAsTheFlow) {
  const uint64_t seed = 20240611;
  Random random(seed);
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const size_t nodes = 2 + random.below(30);
    const Network network = draw_network(random, nodes, 1 + random.below(4 * nodes));
    const Flow flow = max_flow(network).take();
    if (flow.unlimited) {
      EXPECT_GE(flow_by_augmenting_paths(network), 1'000'000'000);
      continue;
    }
    EXPECT_EQ(flow.value * kParts, Rational(flow_by_augmenting_paths(network)));
    expect_conserved(network, flow);
    Rational cut = 0;
    for (const size_t edge : flow.cut) cut += network.edges()[edge].capacity.value();
    EXPECT_EQ(cut, flow.value);
  }
}

TEST(NetworkTest, SmallRandomNetworksFlowAsMuchAsTheirSmallestCut) {
  const uint64_t seed = 7;
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const size_t nodes = 2 + random.below(7);
    const Network network = draw_network(random, nodes, 1 + random.below(20));
    const Flow flow = max_flow(network).take();
    const auto smallest = smallest_of_all_cuts(network);
    EXPECT_EQ(flow.unlimited, !smallest.has_value());
    if (smallest) EXPECT_EQ(flow.value, *smallest);
  }
}

}  // namespace
}  // namespace millrace::plan
