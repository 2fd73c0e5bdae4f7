// Nodes that join, leave, die, come back and are copied, over a registry in memory whose clock the test sets,
// and over the files of a directory with real threads.
#include "cluster/member.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <utility>

#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "cluster/files_registry.h"
#include "cluster/join_token.h"
#include "cluster/testing/eventually.h"
#include "cluster/testing/member_fixture.h"

namespace millrace::cluster {
namespace {

using millrace::testing::eventually;
using millrace::testing::MemoryRegistry;
using millrace::testing::MemoryStore;
using millrace::testing::TemporaryDirectory;
using std::chrono::milliseconds;

MapNode node(const std::string& id, const std::string& process) {
  MapNode made;
  made.id = id;
  made.process = process;
  made.address = id + ":9000";
  made.drives = {drive(id + "-d1"), drive(id + "-d2")};
  return made;
}

class MemberTest : public MemberFixture {};

TEST_F(MemberTest, FoundsAClusterAndLetsOthersJoin) {
  const auto a = start("a");
  EXPECT_FALSE(a->member->has_lease());
  turn(*a);
  EXPECT_FALSE(a->member->problem().has_value());
  EXPECT_TRUE(a->member->has_lease());
  EXPECT_TRUE(a->member->is_leader());
  EXPECT_EQ(a->member->self(), 1U);
  const auto b = start("b");
  turn(*b);
  live({a.get(), b.get()});
  EXPECT_EQ(b->member->self(), 2U);
  EXPECT_TRUE(b->member->has_lease());
  EXPECT_FALSE(b->member->is_leader());
  EXPECT_EQ(a->member->map()->epoch(), 2U);
  EXPECT_EQ(a->member->identity()->id, b->member->identity()->id);
  EXPECT_EQ(a->member->identity()->secret, b->member->identity()->secret);
  EXPECT_EQ(a->epochs, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(b->epochs, (std::vector<uint32_t>{1, 2}));
  // Nothing happens while nothing happens.
  live({a.get(), b.get()}, 30);
  EXPECT_EQ(a->member->map()->epoch(), 2U);
}

TEST_F(MemberTest, KeepsEveryOpenMap) {
  const auto a = start("a");
  const auto b = start("b");
  const auto c = start("c");
  live({a.get(), b.get(), c.get()}, 2);
  const auto maps = c->member->maps();
  ASSERT_EQ(maps->size(), 4U - maps->front()->epoch());
  for (size_t at = 0; at < maps->size(); ++at) EXPECT_EQ((*maps)[at]->epoch(), maps->front()->epoch() + at);
  // Closed ones go.
  const uint32_t newest = maps->back()->epoch();
  ASSERT_TRUE(change_map(a->registry, [&](const Map& map) { return with_closed(map, newest); }).has_value());
  live({a.get(), b.get(), c.get()}, 2);
  EXPECT_EQ(c->member->maps()->size(), 2U);
  EXPECT_EQ(a->registry.list("maps/").take().size(), 1U);
}

TEST_F(MemberTest, CallsANodeAwayWhoseLeaseEndedAndServingWhenItIsBack) {
  const auto a = start("a");
  const auto b = start("b");
  live({a.get(), b.get()}, 2);
  const uint32_t before = a->member->map()->epoch();
  live({a.get()}, 5);
  EXPECT_EQ(state_of(*a, "b"), NodeState::kServing);
  EXPECT_TRUE(b->member->has_lease());
  live({a.get()}, 2);
  EXPECT_EQ(state_of(*a, "b"), NodeState::kAway);
  EXPECT_FALSE(b->member->has_lease());
  EXPECT_EQ(a->member->map()->epoch(), before + 1);
  live({a.get(), b.get()}, 2);
  EXPECT_EQ(state_of(*a, "b"), NodeState::kServing);
  EXPECT_TRUE(b->member->has_lease());
  EXPECT_EQ(b->member->self(), 2U);
  EXPECT_EQ(a->member->map()->epoch(), before + 2);
}

TEST_F(MemberTest, HandsTheLeadOverWhenTheLeaderDies) {
  const auto a = start("a");
  const auto b = start("b");
  live({a.get(), b.get()}, 2);
  ASSERT_TRUE(a->member->is_leader());
  live({b.get()}, 8);
  EXPECT_TRUE(b->member->is_leader());
  EXPECT_FALSE(a->member->is_leader());
  EXPECT_EQ(state_of(*b, "a"), NodeState::kAway);
  live({a.get(), b.get()}, 2);
  EXPECT_TRUE(b->member->is_leader());
  EXPECT_FALSE(a->member->is_leader());
}

TEST_F(MemberTest, CountsItsLeaseFromBeforeTheRenewalWasSent) {
  const auto a = start("a");
  turn(*a);
  // The renewal takes four seconds to arrive: the registry counts from then, the node from before.
  a->registry.before_next_call([&] { now_us_ += 4'000'000; });
  a->member->renew();
  now_us_ += 1'999'999;
  EXPECT_TRUE(a->member->has_lease());
  now_us_ += 1;
  EXPECT_FALSE(a->member->has_lease());
  EXPECT_TRUE(a->registry.get("lease/a").take().has_value());
}

TEST_F(MemberTest, ActsOnUnderItsLastMapUntilTheLeaseEndsWhenCutOff) {
  const auto a = start("a");
  const auto b = start("b");
  live({a.get(), b.get()}, 2);
  b->registry.cut();
  live({a.get(), b.get()}, 5);
  EXPECT_TRUE(b->member->has_lease());
  EXPECT_EQ(b->member->problem()->code(), Code::kUnavailable);
  live({a.get(), b.get()}, 2);
  EXPECT_FALSE(b->member->has_lease());
  EXPECT_NE(b->member->map(), nullptr);
  EXPECT_EQ(state_of(*a, "b"), NodeState::kAway);
  b->registry.mend();
  live({a.get(), b.get()}, 2);
  EXPECT_TRUE(b->member->has_lease());
  EXPECT_FALSE(b->member->problem().has_value());
}

// The leader has looked at the leases, and the node comes back before the leader writes its map: the session
// that the new map calls away must not act, whatever lease the node has by then.
TEST_F(MemberTest, DoesNotActInASessionThatIsJustBeingCalledAway) {
  const auto a = start("a");
  const auto b = start("b");
  live({a.get(), b.get()}, 2);
  const KnownMap seen = read_map(a->registry).take().value();
  live({}, 7);
  const auto away = with_living(*seen.map, {seen.map->find_node("a")->process}, 0).take();
  ASSERT_TRUE(away.has_value());
  b->member->renew();
  EXPECT_FALSE(b->member->has_lease());
  // Its new lease entry is written, its place in the map is not yet: just then the leader's map comes.
  bool called_away = false;
  const auto watch = a->registry.watch("lease/b", [&] {
    if (!std::exchange(called_away, true)) replace_map(a->registry, seen, *away).take().value();
  });
  b->member->step();
  ASSERT_TRUE(called_away);
  EXPECT_EQ(b->member->map()->epoch(), seen.map->epoch());
  EXPECT_FALSE(b->member->has_lease());
  b->member->step();
  EXPECT_TRUE(b->member->has_lease());
  EXPECT_GT(b->member->map()->epoch(), away->epoch());
}

TEST_F(MemberTest, RefusesACopyOfALivingNode) {
  const auto a = start("a");
  turn(*a);
  const auto copy = start("a");
  for (int second = 0; second < 20; ++second) {
    live({a.get(), copy.get()});
    ASSERT_TRUE(copy->member->problem().has_value());
    EXPECT_TRUE(copy->member->problem()->is(kNodeInUse));
    EXPECT_FALSE(copy->member->has_lease());
    EXPECT_TRUE(a->member->has_lease());
  }
  // When the first is dead, the second is the node.
  live({copy.get()}, 8);
  EXPECT_TRUE(copy->member->has_lease());
  EXPECT_FALSE(a->member->has_lease());
  EXPECT_EQ(copy->member->self(), 1U);
}

TEST_F(MemberTest, RefusesTheRegistryOfAnotherCluster) {
  const auto a = start("a");
  turn(*a);
  MemberOptions foreign;
  foreign.cluster = "another";
  const auto b = start("b", foreign);
  live({a.get(), b.get()}, 3);
  ASSERT_TRUE(b->member->problem().has_value());
  EXPECT_TRUE(b->member->problem()->is(kOtherCluster)) << b->member->problem()->message();
  EXPECT_EQ(a->member->map()->nodes().size(), 1U);
  MemberOptions own;
  own.cluster = a->member->identity()->id;
  const auto c = start("c", own);
  live({a.get(), c.get()}, 2);
  EXPECT_TRUE(c->member->has_lease());
}

TEST_F(MemberTest, FoundsNoSecondClusterInARegistryThatLostTheFirst) {
  MemberOptions known;
  known.cluster = "mine";
  const auto a = start("a", known);
  live({a.get()}, 3);
  EXPECT_TRUE(a->member->problem()->is(kOtherCluster));
  EXPECT_TRUE(a->registry.list("").take().empty());
}

TEST_F(MemberTest, KeepsItsMapWhenTheRegistryGoesBack) {
  const auto a = start("a");
  const auto b = start("b");
  live({a.get(), b.get()}, 3);
  const auto before = a->member->map();
  const Entry old = a->registry.get("maps/1").take().value();
  const Entry now = a->registry.get("map").take().value();
  ASSERT_TRUE(a->registry.swap("map", now.revision, old.value, LeaseId::kNone).take().has_value());
  live({a.get(), b.get()});
  EXPECT_EQ(a->member->problem()->code(), Code::kCorrupt);
  EXPECT_EQ(a->member->map(), before);
}

TEST_F(MemberTest, SaysWhatIsWrongWithABrokenRegistry) {
  const auto a = start("a");
  ASSERT_TRUE(a->registry.swap("cluster", 0, "nonsense", LeaseId::kNone).take().has_value());
  turn(*a);
  EXPECT_EQ(a->member->problem()->code(), Code::kCorrupt);
  const auto entry = a->registry.get("cluster").take().value();
  const std::string good = encode_identity({"c", "s"});
  ASSERT_TRUE(a->registry.swap("cluster", entry.revision, good, LeaseId::kNone).take().has_value());
  ASSERT_TRUE(a->registry.swap("map", 0, "[]", LeaseId::kNone).take().has_value());
  turn(*a);
  EXPECT_EQ(a->member->problem()->code(), Code::kCorrupt);
}

TEST_F(MemberTest, AdmitsNewNodesByATokenOnly) {
  MemberOptions closed;
  closed.admission = Admission::kToken;
  const auto a = start("a", closed);  // founds it
  turn(*a);
  EXPECT_TRUE(a->member->has_lease());
  const std::string token = make_token(a->registry, milliseconds(60'000)).take();
  const auto b = start("b", closed);
  turn(*b);
  EXPECT_TRUE(b->member->problem()->is(kTokenNeeded));
  MemberOptions wrong = closed;
  wrong.token = token + "0";
  const auto c = start("c", wrong);
  turn(*c);
  EXPECT_TRUE(c->member->problem()->is(kTokenNeeded));
  MemberOptions right = closed;
  right.token = token;
  const auto d = start("d", right);
  turn(*d);
  EXPECT_TRUE(d->member->has_lease());
  // Nothing in the registry is the token.
  for (const Entry& entry : a->registry.list("").take()) {
    EXPECT_EQ(entry.name.find(token), std::string::npos);
    EXPECT_EQ(entry.value.find(token), std::string::npos);
  }
  live({a.get()}, 61);
  EXPECT_FALSE(check_token(a->registry, token).take());
  // A node that is known needs none.
  const auto again = start("d", closed);
  live({a.get(), again.get()}, 2);
  EXPECT_TRUE(again->member->has_lease());
}

TEST_F(MemberTest, TellsOfOtherDrivesAndAddresses) {
  const auto a = start("a");
  turn(*a);
  a->member->set_drives({drive("a-d1"), drive("a-d3")});
  live({a.get()});
  const MapNode* mine = a->member->map()->find_node("a");
  ASSERT_EQ(mine->drives.size(), 3U);
  EXPECT_EQ(mine->drives[0].state, DriveStanding::kServing);
  EXPECT_EQ(mine->drives[1].state, DriveStanding::kAway);
  EXPECT_EQ(mine->drives[2].state, DriveStanding::kServing);
}

TEST_F(MemberTest, DrainsAndRemovesNodes) {
  const auto a = start("a");
  const auto b = start("b");
  live({a.get(), b.get()}, 2);
  const auto serving = change_map(a->registry, [](const Map& map) { return with_removed(map, "b", 0); });
  EXPECT_EQ(serving.error().code(), Code::kInvalid);
  ASSERT_TRUE(change_map(a->registry, [](const Map& map) { return with_drained(map, "b", 0); }).has_value());
  live({a.get(), b.get()});
  EXPECT_EQ(state_of(*b, "b"), NodeState::kDraining);
  EXPECT_TRUE(b->member->has_lease());
  // It drains on when it was away.
  live({a.get()}, 8);
  EXPECT_EQ(state_of(*a, "b"), NodeState::kAway);
  live({a.get(), b.get()}, 2);
  EXPECT_EQ(state_of(*a, "b"), NodeState::kDraining);
  ASSERT_TRUE(change_map(a->registry, [](const Map& map) { return with_removed(map, "b", 0); }).has_value());
  live({a.get(), b.get()}, 2);
  EXPECT_EQ(state_of(*a, "b"), NodeState::kGone);
  EXPECT_FALSE(b->member->has_lease());
  EXPECT_EQ(b->member->problem()->code(), Code::kDenied);
  // Its number is not given again.
  const auto c = start("c");
  turn(*c);
  EXPECT_EQ(c->member->self(), 3U);
}

TEST_F(MemberTest, JoinsOnceThoughAnswersAreLost) {
  // Every change in turn is done, but its answer is lost.
  for (int lost = 0; lost < 6; ++lost) {
    const std::string id = "n" + std::to_string(lost);
    const auto joined = start(id);
    for (int second = 0; second < 4; ++second) {
      if (second * 2 == lost || second * 2 + 1 == lost) joined->registry.lose_next_answer();
      live({joined.get()});
    }
    live({joined.get()}, 3);
    EXPECT_TRUE(joined->member->has_lease()) << lost;
    std::set<std::string> ids;
    for (const MapNode& other : joined->member->map()->nodes()) EXPECT_TRUE(ids.insert(other.id).second);
    static_cast<void>(joined->member->leave());
  }
}

TEST_F(MemberTest, NeverHasTwoWhoActForOneNodeWhateverHappens) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    store_ = std::make_unique<MemoryStore>([this] { return now_us_; });
    std::vector<std::unique_ptr<Joined>> all;
    for (int number = 0; number < 5; ++number) {
      // Two of them are the same node.
      auto joined = start("n" + std::to_string(number % 4));
      all.push_back(std::move(joined));
    }
    for (int event = 0; event < 300; ++event) {
      now_us_ += random.below(2'500'000);
      Joined& one = *all[random.below(all.size())];
      switch (random.below(10)) {
        case 0:
          one.registry.cut();
          break;
        case 1:
        case 2:
          one.registry.mend();
          break;
        case 3:
          one.registry.lose_next_answer();
          break;
        case 4:
          one.registry.before_next_call([&] { now_us_ += random.below(8'000'000); });
          break;
        case 5:
        case 6:
          one.member->renew();
          break;
        default:
          turn(one);
      }
      ASSERT_FALSE(all[0]->member->has_lease() && all[4]->member->has_lease());
      // Whoever the newest map calls away does not act; and each acts in the session that the map names.
      MemoryRegistry reader(*store_);
      const auto newest = read_map(reader).take();
      for (const auto& joined : all) {
        if (!joined->member->has_lease()) continue;
        ASSERT_NE(newest->map->find_node(joined->member->self()), nullptr);
        ASSERT_TRUE(newest->map->find_node(joined->member->self())->is_alive());
      }
    }
    for (const auto& joined : all) joined->registry.mend();
    std::vector<Joined*> living;
    for (size_t at = 0; at < 4; ++at) living.push_back(all[at].get());
    static_cast<void>(all[4]->member->leave());
    live(living, 10);
    for (const Joined* joined : living) ASSERT_TRUE(joined->member->has_lease());
    for (const Joined* joined : living) static_cast<void>(joined->member->leave());
  }
}

TEST(MapChangesTest, AMapThatIsClosedWhileItIsReadIsReadAgain) {
  MemoryStore store([] { return uint64_t{0}; });
  MemoryRegistry registry(store);
  const Map none("c", 0, 0, {});
  const Map first = with_node(none, node("a", "p1"), 5).take().value();
  ASSERT_TRUE(registry.swap("map", 0, encode_map(first), LeaseId::kNone).take().has_value());
  const auto add = [](const Map& map) { return with_node(map, node("b", "p2"), 5); };
  const KnownMap before = change_map(registry, add).take();
  EXPECT_EQ(read_open_maps(registry, before, nullptr).take()->size(), 2U);
  const KnownMap closed = change_map(registry, [](const Map& map) { return with_closed(map, 2); }).take();
  ASSERT_TRUE(forget_closed_maps(registry, *closed.map));
  EXPECT_EQ(read_open_maps(registry, before, nullptr).error().code(), Code::kUnavailable);
  EXPECT_EQ(read_open_maps(registry, closed, nullptr).take()->size(), 2U);
  // One that is missing though nothing changed is damage.
  ASSERT_TRUE(registry.remove("maps/2", registry.get("maps/2").take()->revision).take());
  EXPECT_EQ(read_open_maps(registry, closed, nullptr).error().code(), Code::kCorrupt);
}

TEST(MapChangesTest, EpochsAreClosedWhenAllNodesHaveWalkedAndTheirMapsPlaceOtherwise) {
  const Map none("c", 0, 0, {});
  const auto one = std::make_shared<const Map>(with_node(none, node("a", "p1"), 5).take().value());
  const auto two = std::make_shared<const Map>(with_node(*one, node("b", "p2"), 5).take().value());
  const Maps maps = {one, two};
  EXPECT_FALSE(one->places_like(*two));
  EXPECT_EQ(find_closable(maps, {{"a", {2, 0}}, {"b", {2, 0}}}, Calm::kRecent), 2U);
  EXPECT_FALSE(find_closable(maps, {{"a", {2, 0}}, {"b", {1, 0}}}, Calm::kRecent));
  EXPECT_FALSE(find_closable(maps, {{"a", {2, 0}}}, Calm::kRecent));

  // A node that is away keeps everything open, one that is gone does not.
  const auto away = std::make_shared<const Map>(with_living(*two, {"p1"}, 6).take().value());
  const std::map<std::string, Walked> all = {{"a", {3, 0}}, {"b", {3, 0}}};
  EXPECT_FALSE(find_closable({one, two, away}, all, Calm::kQuiet));
  const auto gone = std::make_shared<const Map>(with_removed(*away, "b", 7).take().value());
  EXPECT_EQ(find_closable({one, two, away, gone}, {{"a", {4, 0}}}, Calm::kRecent), 4U);

  // Where maps place alike, an epoch is closed for the sake of its tombstones alone.
  const auto next = std::make_shared<const Map>(with_closed(*gone, 4).take().value());
  EXPECT_EQ(next->epoch(), 5U);
  EXPECT_EQ(next->oldest_open(), 4U);
  const Maps alike = {gone, next};
  EXPECT_FALSE(find_closable(alike, {{"a", {5, 1}}}, Calm::kRecent));
  EXPECT_FALSE(find_closable(alike, {{"a", {5, 0}}}, Calm::kQuiet));
  EXPECT_EQ(find_closable(alike, {{"a", {5, 1}}}, Calm::kQuiet), 5U);
  // The only epoch that is open is followed by another.
  const Map only("c", 7, 7, next->nodes());
  EXPECT_EQ(with_closed(only, 7).take().value().epoch(), 8U);
}

TEST(MapChangesTest, LeaveAMapAloneThatIsAsItShouldBe) {
  const Map none("c", 0, 0, {});
  const Map one = with_node(none, node("a", "p1"), 5).take().value();
  EXPECT_EQ(one.epoch(), 1U);
  EXPECT_EQ(one.find_node("a")->since_ms, 5);
  EXPECT_FALSE(with_node(one, node("a", "p1"), 6).take().has_value());
  EXPECT_FALSE(with_living(one, {"p1"}, 6).take().has_value());
  EXPECT_FALSE(with_closed(one, 0).take().has_value());
  EXPECT_EQ(with_closed(one, 2).error().code(), Code::kInvalid);
  EXPECT_EQ(with_drained(one, "b", 6).error().code(), Code::kNotFound);
  EXPECT_EQ(with_removed(one, "b", 6).error().code(), Code::kNotFound);
  const Map changed = with_redundancy(one, "b", {1, 0, 1}, {4, 2, 5}).take().value();
  EXPECT_EQ(changed.epoch(), one.epoch() + 1);
  EXPECT_EQ(changed.redundancies(), (std::vector<ChangedRedundancy>{{"b", one.epoch() + 1, {4, 2, 5}}}));
  EXPECT_FALSE(with_redundancy(changed, "b", {1, 0, 1}, {4, 2, 5}).take().has_value());
  EXPECT_EQ(with_drained(changed, "a", 7).take().value().redundancies(), changed.redundancies());
  const Map drained = with_drained(one, "a", 7).take().value();
  EXPECT_FALSE(with_drained(drained, "a", 8).take().has_value());
}

TEST(MapChangesTest, ADriveThatWasGivenUpIsGoneForGood) {
  const auto standing = [](const Map& map, std::string_view id) -> std::optional<DriveStanding> {
    for (const MapDrive& drive : map.find_node("a")->drives) {
      if (drive.id == id) return drive.state;
    }
    return std::nullopt;
  };
  MapNode said = node("a", "p1");
  said.drives = {{"kept", 1.0, DriveStanding::kServing}, {"lost", 1.0, DriveStanding::kServing}};
  const Map both = with_node(Map("c", 0, 0, {}), said, 1).take().value();
  said.drives.pop_back();
  EXPECT_EQ(standing(with_node(both, said, 2).take().value(), "lost"), DriveStanding::kAway);
  said.drives.push_back({"lost", 1.0, DriveStanding::kGone});
  said.drives.push_back({"never here", 1.0, DriveStanding::kGone});
  const Map given_up = with_node(both, said, 3).take().value();
  EXPECT_EQ(standing(given_up, "lost"), DriveStanding::kGone);
  EXPECT_EQ(standing(given_up, "never here"), std::nullopt);
  // It missed what was removed meanwhile.
  said.drives = {{"kept", 1.0, DriveStanding::kServing}, {"lost", 1.0, DriveStanding::kServing}};
  EXPECT_FALSE(with_node(given_up, said, 4).take().has_value());
}

TEST(MemberThreadsTest, ALeaseIsRenewedSixTimesAndAtLeastEverySecond) {
  MemoryStore store([] { return uint64_t{0}; });
  MemoryRegistry registry(store);
  const auto pace = [&](milliseconds lease) {
    MemberOptions options;
    options.lease = lease;
    return Member(registry, options, MemberSurroundings::real(), {}).pace();
  };
  EXPECT_EQ(pace(milliseconds(3000)), milliseconds(500));
  EXPECT_EQ(pace(milliseconds(6000)), milliseconds(1000));
  EXPECT_EQ(pace(milliseconds(60'000)), milliseconds(1000));
}

TEST(MemberThreadsTest, JoinsLeadsAndNoticesADeathOverFiles) {
  TemporaryDirectory directory;
  struct Running {
    Running(const std::string& path, const std::string& id) : registry(FilesRegistry::open(path).take()) {
      MemberOptions options;
      options.node = id;
      options.address = id + ":9000";
      options.drives = {drive(id + "-d1")};
      options.lease = milliseconds(4000);
      MemberSurroundings surroundings = MemberSurroundings::real();
      surroundings.wake = [this] { threads.wake(); };
      member = std::make_unique<Member>(*registry, options, surroundings, [this](const Maps&) { ++changes; });
      threads.start(*member);
    }
    ~Running() { threads.stop(); }
    std::unique_ptr<FilesRegistry> registry;
    std::atomic<int> changes = 0;
    MemberThreads threads;
    std::unique_ptr<Member> member;
  };
  const std::string path = directory.path("registry");
  Running a(path, "a");
  auto b = std::make_unique<Running>(path, "b");
  ASSERT_TRUE(eventually([&] { return a.member->has_lease() && b->member->has_lease(); }));
  ASSERT_TRUE(eventually([&] { return a.member->is_leader() != b->member->is_leader(); }));
  ASSERT_TRUE(eventually([&] { return a.member->map()->nodes().size() == 2; }));
  b.reset();  // without leave(): as if it was killed
  EXPECT_TRUE(eventually([&] { return a.member->map()->find_node("b")->state == NodeState::kAway; }));
  EXPECT_TRUE(eventually([&] { return a.member->is_leader(); }));
  b = std::make_unique<Running>(path, "b");
  EXPECT_TRUE(eventually([&] { return a.member->map()->find_node("b")->state == NodeState::kServing; }));
  EXPECT_TRUE(eventually([&] { return b->member->has_lease(); }));
}

}  // namespace
}  // namespace millrace::cluster
