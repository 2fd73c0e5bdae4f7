// Nodes that leave in order, and drives that come to other nodes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/map_changes.h"
#include "cluster/testing/member_fixture.h"

namespace millrace::cluster {
namespace {

class LeavingTest : public MemberFixture {};

TEST_F(LeavingTest, IsAwayAtOnceWhenItLeavesEvenIfItLed) {
  const auto a = start("a");
  const auto b = start("b");
  const auto c = start("c");
  live({a.get(), b.get(), c.get()}, 2);
  ASSERT_TRUE(a->member->is_leader());
  EXPECT_TRUE(a->member->leave());
  // It knows that it does not act any more, and so does whoever looks, without the end of any lease.
  EXPECT_FALSE(a->member->has_lease());
  EXPECT_EQ(state_of(*a, "a"), NodeState::kAway);
  b->member->look_again();
  turn(*b);
  EXPECT_EQ(state_of(*b, "a"), NodeState::kAway);
  EXPECT_TRUE(b->member->has_lease());
  live({b.get(), c.get()});
  EXPECT_TRUE(b->member->is_leader() || c->member->is_leader());
  // A second call changes nothing, and the node may come back.
  EXPECT_TRUE(a->member->leave());
  const auto again = start("a");
  turn(*again);
  EXPECT_TRUE(again->member->has_lease());
}

TEST_F(LeavingTest, DrivesThatChangedPlacesBelongToTheNodesThatHaveThem) {
  {
    const auto a = start("a");
    const auto b = start("b");
    live({a.get(), b.get()}, 2);
    // Both are killed: nobody is there who could call the other away.
  }
  now_us_ += 10'000'000;
  MemberOptions of_a;
  of_a.drives = {drive("a-d1"), drive("b-d1")};
  MemberOptions of_b;
  of_b.drives = {drive("a-d2"), drive("b-d2")};
  const auto a = start("a", of_a);
  live({a.get()}, 2);
  EXPECT_TRUE(a->member->has_lease());
  const auto b = start("b", of_b);
  live({a.get(), b.get()}, 3);
  EXPECT_TRUE(b->member->has_lease());
  const auto map = a->member->map();
  const auto ids = [&](const char* node) {
    std::vector<std::string> found;
    for (const MapDrive& one : map->find_node(node)->drives) {
      EXPECT_EQ(one.state, DriveStanding::kServing);
      found.push_back(one.id);
    }
    return found;
  };
  EXPECT_EQ(ids("a"), (std::vector<std::string>{"a-d1", "b-d1"}));
  EXPECT_EQ(ids("b"), (std::vector<std::string>{"a-d2", "b-d2"}));
  EXPECT_EQ(map->node_of(drive("b-d1").hash())->number, a->member->self());
}

TEST_F(LeavingTest, ADriveThatIsServedIsNotTakenFromItsNode) {
  const auto a = start("a");
  turn(*a);
  MemberOptions with_copy;
  with_copy.drives = {drive("b-d1"), drive("a-d1")};
  const auto b = start("b", with_copy);
  live({a.get(), b.get()}, 5);
  EXPECT_FALSE(b->member->has_lease());
  ASSERT_TRUE(b->member->problem().has_value());
  EXPECT_TRUE(b->member->problem()->is(kServedElsewhere)) << b->member->problem()->message();
  EXPECT_EQ(a->member->map()->find_node("a")->drives.size(), 2U);
}

TEST_F(LeavingTest, DrainsOnWhenItReturnsAfterLeaving) {
  const auto a = start("a");
  const auto b = start("b");
  live({a.get(), b.get()}, 2);
  ASSERT_TRUE(change_map(a->registry, [](const Map& map) { return with_drained(map, "b", 1); }));
  live({a.get(), b.get()}, 2);
  EXPECT_TRUE(b->member->leave());
  EXPECT_EQ(state_of(*b, "b"), NodeState::kAway);
  const auto again = start("b");
  live({a.get(), again.get()}, 2);
  EXPECT_EQ(state_of(*a, "b"), NodeState::kDraining);
}

TEST_F(LeavingTest, WithoutTheRegistryItsLeaseEndsByItselfWhenItLeaves) {
  const auto a = start("a");
  const auto b = start("b");
  live({a.get(), b.get()}, 2);
  b->registry.cut();
  EXPECT_FALSE(b->member->leave());
  EXPECT_FALSE(b->member->has_lease());
  live({a.get()}, 8);
  EXPECT_EQ(state_of(*a, "b"), NodeState::kAway);
}

TEST_F(LeavingTest, JoinsAtOnceAfterAProperEnd) {
  auto a = start("a");
  turn(*a);
  EXPECT_TRUE(a->member->leave());
  EXPECT_FALSE(a->member->has_lease());
  const auto again = start("a");
  turn(*again);
  EXPECT_TRUE(again->member->has_lease());
}

}  // namespace
}  // namespace millrace::cluster
