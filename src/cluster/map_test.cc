// Maps: placements, and what the registry keeps of them.
#include "cluster/map.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace millrace::cluster {
namespace {

MapNode node(uint32_t number, size_t drives, NodeState state = NodeState::kServing) {
  MapNode node;
  node.id = "n" + std::to_string(number);
  node.number = number;
  node.process = "p";
  node.address = "127.0.0.1:" + std::to_string(9000 + number);
  node.state = state;
  for (size_t i = 0; i < drives; ++i) node.drives.push_back({node.id + "-" + std::to_string(i), 1.5, {}});
  return node;
}

TEST(MapTest, IsTheSameAfterTheRegistry) {
  MapNode second = node(2, 1, NodeState::kAway);
  second.zone = "b";
  second.since_ms = 77;
  second.drives[0].state = DriveStanding::kDraining;
  const Map map("c1", 7, 3, {node(1, 2), second});
  const Map again = decode_map(encode_map(map)).take();
  EXPECT_EQ(again.nodes(), map.nodes());
  EXPECT_EQ(again.epoch(), 7u);
  EXPECT_EQ(again.oldest_open(), 3u);
  EXPECT_EQ(again.cluster(), "c1");
}

TEST(MapTest, AFullDriveIsStillAskedAndGetsNoNewSlices) {
  MapNode full = node(2, 1);
  full.drives[0].full = true;
  const Map map("c1", 7, 3, {node(1, 1), full, node(3, 1), node(4, 1)});
  const Map empty("c1", 7, 3, {node(1, 1), node(2, 1), node(3, 1), node(4, 1)});
  const Map again = decode_map(encode_map(map)).take();
  EXPECT_EQ(again.nodes(), map.nodes());
  EXPECT_TRUE(again.has_full_drives());
  EXPECT_FALSE(empty.has_full_drives());
  EXPECT_FALSE(map.places_like(empty));
  const DriveId drive = full.drives[0].hash();
  bool met = false;
  for (uint64_t name = 0; name < 50; ++name) {
    EXPECT_EQ(map.place(name, 3), empty.place(name, 3));
    EXPECT_EQ(map.home(name), empty.home(name));
    const std::vector<DriveId> takers = map.place_new(name, 3);
    EXPECT_EQ(takers.size(), 3u);
    EXPECT_FALSE(contains(takers, drive));
    met = met || contains(map.place(name, 3), drive);
    EXPECT_EQ(empty.place_new(name, 3), empty.place(name, 3));
  }
  EXPECT_TRUE(met);
  EXPECT_EQ(map.place_new(1, 4).size(), 3u);
}

TEST(MapTest, KeepsTheRedundanciesThatWereChanged) {
  const Map map("c1", 7, 3, {node(1, 2)}, {{"b", 5, {4, 2, 5}}, {"a", 7, {1, 2, 2}}});
  const Map again = decode_map(encode_map(map)).take();
  EXPECT_EQ(again.redundancies(), map.redundancies());
  const store::Redundancy made{2, 1, 3, 4};
  EXPECT_EQ(again.redundancy_of("b", made), (store::Redundancy{4, 2, 5, 4}));
  EXPECT_EQ(again.redundancy_of("other", made), made);
  // One that was made after the change has only the name in common.
  const store::Redundancy later{2, 1, 3, 5};
  EXPECT_EQ(again.redundancy_of("b", later), later);
  EXPECT_FALSE(again.places_like(Map("c1", 7, 3, {node(1, 2)})));
}

TEST(MapTest, ImpossibleRedundanciesAreRefused) {
  const std::string good = encode_map(Map("c", 1, 1, {node(1, 1)}, {{"b", 1, {4, 2, 5}}}));
  for (const auto& [from, to] :
       std::initializer_list<std::pair<const char*, const char*>>{{R"("k":4)", R"("k":0)"},
                                                                  {R"("k":4)", R"("k":4000)"},
                                                                  {R"("m":2)", R"("m":99)"},
                                                                  {R"("floor":5)", R"("floor":3)"},
                                                                  {R"("floor":5)", R"("floor":7)"},
                                                                  {R"("redundancies")", R"("redundancy")"}}) {
    std::string text = good;
    text.replace(text.find(from), std::string(from).size(), to);
    EXPECT_FALSE(decode_map(text)) << text;
  }
  EXPECT_TRUE(decode_map(good));
}

TEST(MapTest, PlacesOnServingDrivesOfServingNodesOnly) {
  const Map map("c", 1, 1, {node(1, 2), node(2, 2, NodeState::kAway), node(3, 2, NodeState::kDraining)});
  for (uint64_t name = 0; name < 50; ++name) {
    const auto holders = map.place(name, 6);
    ASSERT_EQ(holders.size(), 2u);
    for (const DriveId drive : holders) EXPECT_EQ(map.node_of(drive)->number, 1u);
    EXPECT_EQ(map.home(name), 1u);
  }
  EXPECT_TRUE(map.is_alive(map.nodes()[2].drives[0].hash()));   // draining: answers, but gets nothing
  EXPECT_FALSE(map.is_alive(map.nodes()[1].drives[0].hash()));  // away
  EXPECT_EQ(map.node_of(12345), nullptr);
}

TEST(MapTest, ShorterPlacementsAreBeginningsOfLongerOnes) {
  const Map map("c", 1, 1, {node(1, 2), node(2, 2), node(3, 2), node(4, 2)});
  for (uint64_t name = 0; name < 200; ++name) {
    const auto six = map.place(name, 6);
    const auto three = map.place(name, 3);
    EXPECT_TRUE(std::equal(three.begin(), three.end(), six.begin()));
    EXPECT_EQ(map.node_of(six[0])->number, map.home(name));
  }
}

TEST(MapTest, AMapWithoutDrivesHasNoHome) {
  EXPECT_EQ(Map("c", 1, 1, {}).home(5), 0u);
  EXPECT_TRUE(Map().place(5, 3).empty());
}

TEST(MapTest, WhatIsNoMapIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"format":2})", R"({"format":1,"nodes":[{}]})",
                           R"({"format":1,"cluster":"c","epoch":1,"oldest_open":2,"nodes":[]})",
                           R"({"format":1,"cluster":"c","epoch":-1,"oldest_open":0,"nodes":{"a":1}})"}) {
    EXPECT_FALSE(decode_map(text)) << text;
  }
  std::string text = encode_map(Map("c", 1, 1, {node(1, 1)}));
  text.replace(text.find("1.5"), 3, "0.0");
  EXPECT_EQ(decode_map(text).error().message(), "map: a drive's weight is not above zero");
}

}  // namespace
}  // namespace millrace::cluster
