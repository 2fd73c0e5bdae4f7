// Holders: spread over zones, nodes and drives, fair by weight, and little moves when the map changes.
#include "cluster/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/hash.h"

namespace millrace::cluster {
namespace {

constexpr int kNames = 4'000;

uint64_t name(int number) {
  return name_hash("train", "shard-" + std::to_string(number) + ".tar");
}

PlacedDrive drive(uint32_t zone, uint32_t node, uint32_t number) {
  return {{hash64(std::to_string(node) + "/" + std::to_string(number)), 1000.0}, node, zone};
}

// `nodes` nodes of `each` drives, dealt to `zones` zones in turn.
std::vector<PlacedDrive> make_map(uint32_t zones, uint32_t nodes, uint32_t each) {
  std::vector<PlacedDrive> drives;
  for (uint32_t node = 0; node < nodes; ++node) {
    for (uint32_t i = 0; i < each; ++i) drives.push_back(drive(node % zones, node, i));
  }
  return drives;
}

// How many holders the fullest node (or zone) of a name has.
uint32_t fullest(const std::vector<size_t>& holders, const std::vector<PlacedDrive>& drives,
                 uint32_t PlacedDrive::* number) {
  std::map<uint32_t, uint32_t> counts;
  for (const size_t holder : holders) ++counts[drives[holder].*number];
  uint32_t most = 0;
  for (const auto& [which, count] : counts) most = std::max(most, count);
  return most;
}

TEST(PlacementTest, OneHolderIsTheFirstOfTheOrder) {
  const auto drives = make_map(1, 4, 3);
  std::vector<Target> targets;
  for (const PlacedDrive& one : drives) targets.push_back(one.target);
  for (int i = 0; i < kNames; ++i)
    EXPECT_EQ(place_holders(name(i), drives, 1), std::vector{rendezvous_first(name(i), targets)});
}

TEST(PlacementTest, SlicesLieInDifferentZonesWhileThereAreAny) {
  const auto drives = make_map(3, 9, 2);
  for (int i = 0; i < kNames; ++i) {
    EXPECT_EQ(fullest(place_holders(name(i), drives, 3), drives, &PlacedDrive::zone), 1U);
    const auto six = place_holders(name(i), drives, 6);
    EXPECT_EQ(fullest(six, drives, &PlacedDrive::zone), 2U);
    EXPECT_EQ(fullest(six, drives, &PlacedDrive::node), 1U);
  }
}

TEST(PlacementTest, WhereNodesAreFewEachHoldsAsManyAsTheOthers) {
  const auto drives = make_map(1, 3, 4);
  for (int i = 0; i < kNames; ++i) {
    const auto holders = place_holders(name(i), drives, 6);
    EXPECT_EQ(fullest(holders, drives, &PlacedDrive::node), 2U);
    EXPECT_EQ(std::set<size_t>(holders.begin(), holders.end()).size(), 6U);
  }
}

TEST(PlacementTest, ASmallZoneDoesNotCrowdItsOnlyNode) {
  auto drives = make_map(1, 6, 2);
  for (uint32_t i = 0; i < 12; ++i) drives.push_back(drive(1, 6, i));
  for (int i = 0; i < kNames; ++i) {
    const auto holders = place_holders(name(i), drives, 6);
    EXPECT_EQ(fullest(holders, drives, &PlacedDrive::node), 1U);
  }
}

TEST(PlacementTest, WithTooFewDrivesThereAreFewerHolders) {
  EXPECT_EQ(place_holders(name(1), make_map(1, 2, 2), 6).size(), 4U);
  EXPECT_TRUE(place_holders(name(1), {}, 3).empty());
  EXPECT_TRUE(place_holders(name(1), make_map(1, 2, 2), 0).empty());
}

TEST(PlacementTest, TheOrderOfTheMapDoesNotMatter) {
  const auto drives = make_map(2, 6, 3);
  auto turned = drives;
  std::ranges::reverse(turned);
  for (int i = 0; i < 500; ++i) {
    const auto one = place_holders(name(i), drives, 5);
    const auto other = place_holders(name(i), turned, 5);
    for (size_t slot = 0; slot < one.size(); ++slot)
      EXPECT_EQ(drives[one[slot]].target.id, turned[other[slot]].target.id);
  }
}

TEST(PlacementTest, HoldersAreSpreadByWeight) {
  auto drives = make_map(1, 8, 2);
  for (PlacedDrive& one : drives) {
    if (one.node >= 4) one.target.weight = 2000.0;
  }
  std::vector<int> counts(drives.size());
  for (int i = 0; i < 10 * kNames; ++i) ++counts[place_holders(name(i), drives, 1).front()];
  for (size_t i = 0; i < drives.size(); ++i) {
    const double share = drives[i].target.weight / 24000.0;
    EXPECT_NEAR(counts[i], 10 * kNames * share, 10 * kNames * 0.005) << i;
  }
}

// What moves when a node goes is what it held, and hardly more: a walk that begins anew elsewhere would move
// slices that nobody lost.
TEST(PlacementTest, ALostNodeMovesLittleMoreThanItHeld) {
  const auto before = make_map(1, 20, 4);
  auto after = before;
  std::erase_if(after, [](const PlacedDrive& one) { return one.node == 7; });
  int held = 0;
  int moved = 0;
  for (int i = 0; i < kNames; ++i) {
    std::set<uint64_t> old_ids;
    for (const size_t holder : place_holders(name(i), before, 6)) {
      old_ids.insert(before[holder].target.id);
      if (before[holder].node == 7) ++held;
    }
    for (const size_t holder : place_holders(name(i), after, 6)) {
      if (!old_ids.contains(after[holder].target.id)) ++moved;
    }
  }
  EXPECT_GE(moved, held);
  EXPECT_LE(moved, held * 1.01);
}

TEST(PlacementTest, ANewNodeTakesLittleMoreThanItsShare) {
  const auto before = make_map(1, 20, 4);
  auto after = before;
  for (uint32_t i = 0; i < 4; ++i) after.push_back(drive(0, 20, i));
  int taken = 0;
  int moved = 0;
  for (int i = 0; i < kNames; ++i) {
    std::set<uint64_t> old_ids;
    for (const size_t holder : place_holders(name(i), before, 6)) old_ids.insert(before[holder].target.id);
    for (const size_t holder : place_holders(name(i), after, 6)) {
      if (after[holder].node == 20) ++taken;
      if (!old_ids.contains(after[holder].target.id)) ++moved;
    }
  }
  EXPECT_GE(moved, taken);
  EXPECT_LE(moved, taken * 1.01);
}

}  // namespace
}  // namespace millrace::cluster
