// What every registry promises: one set of tests for the files of one machine and for a real etcd.
#include "cluster/registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/temporary_directory.h"
#include "cluster/open_registry.h"
#include "cluster/testing/etcd_process.h"
#include "cluster/testing/eventually.h"

namespace millrace::cluster {
namespace {

using millrace::testing::EtcdMembers;
using millrace::testing::eventually;
using millrace::testing::has_etcd;
using millrace::testing::TemporaryDirectory;
using std::chrono::milliseconds;

class RegistryTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("files")) {
      where_ = directory_.path("registry");
    } else {
      if (!has_etcd()) GTEST_SKIP() << "etcd is not installed: nothing was tested";
      etcd_ = std::make_unique<EtcdMembers>(1);
      ASSERT_TRUE(etcd_->wait_until_ready(0));
      where_ = "etcd://" + etcd_->hosts() + "/test";
    }
    registry_ = open();
  }
  std::unique_ptr<Registry> open() const { return open_registry(where_, {}).take(); }
  std::string value_of(const std::string& name) {
    const auto entry = registry_->get(name).take();
    return entry ? entry->value : "(none)";
  }
  uint64_t put(const std::string& name, const std::string& value, LeaseId lease = LeaseId::kNone) {
    const auto before = registry_->get(name).take();
    return registry_->swap(name, before ? before->revision : 0, value, lease).take().value();
  }
  std::vector<std::string> names(const std::string& prefix) {
    std::vector<std::string> names;
    for (const Entry& entry : registry_->list(prefix).take()) names.push_back(entry.name);
    return names;
  }

  TemporaryDirectory directory_;
  std::unique_ptr<EtcdMembers> etcd_;
  std::string where_;
  std::unique_ptr<Registry> registry_;
};

TEST_P(RegistryTest, GivesBackWhatWasWritten) {
  EXPECT_FALSE(registry_->get("a").take().has_value());
  const std::string binary("\0\n=%\xff\x80 ", 7);
  const auto revision = registry_->swap("a", 0, binary).take();
  ASSERT_TRUE(revision.has_value());
  EXPECT_EQ(registry_->get("a").take(), (Entry{"a", binary, *revision}));
  put("empty", "");
  EXPECT_EQ(value_of("empty"), "");
  const auto other = open();
  EXPECT_EQ(other->get("a").take()->value, binary);
}

TEST_P(RegistryTest, SwapsOnlyWhatIsStillAsExpected) {
  const uint64_t first = registry_->swap("a", 0, "one").take().value();
  EXPECT_FALSE(registry_->swap("a", 0, "two").take().has_value());
  EXPECT_FALSE(registry_->swap("a", first + 1, "two").take().has_value());
  EXPECT_FALSE(registry_->swap("b", first, "two").take().has_value());
  const uint64_t second = registry_->swap("a", first, "two").take().value();
  EXPECT_GT(second, first);
  EXPECT_FALSE(registry_->swap("a", first, "three").take().has_value());
  EXPECT_EQ(value_of("a"), "two");
}

TEST_P(RegistryTest, RemovesOnlyWhatIsStillAsExpected) {
  EXPECT_FALSE(registry_->remove("a", 0).take());
  EXPECT_FALSE(registry_->remove("a", 7).take());
  const uint64_t first = put("a", "one");
  const uint64_t second = put("a", "two");
  EXPECT_FALSE(registry_->remove("a", first).take());
  EXPECT_EQ(value_of("a"), "two");
  EXPECT_TRUE(registry_->remove("a", second).take());
  EXPECT_FALSE(registry_->get("a").take().has_value());
  EXPECT_FALSE(registry_->remove("a", second).take());
  // A new entry of the same name has a revision that no old one had.
  EXPECT_GT(put("a", "three"), second);
}

TEST_P(RegistryTest, ListsByPrefixInTheOrderOfTheNames) {
  for (const char* name : {"b/2", "b/10", "b", "a/1", "b-", "b/1/x", "c"}) put(name, name);
  EXPECT_EQ(names("b/"), (std::vector<std::string>{"b/1/x", "b/10", "b/2"}));
  EXPECT_EQ(names("b"), (std::vector<std::string>{"b", "b-", "b/1/x", "b/10", "b/2"}));
  EXPECT_EQ(names(""), (std::vector<std::string>{"a/1", "b", "b-", "b/1/x", "b/10", "b/2", "c"}));
  EXPECT_TRUE(names("d").empty());
}

TEST_P(RegistryTest, TakesNoNameThatCouldLeaveItsPlace) {
  for (const char* name : {"../up", "..", ".", "/", "a/../../b", "/etc/passwd", "a//b", "x.0011.part"}) {
    put(name, name);
    EXPECT_EQ(value_of(name), name);
  }
  EXPECT_EQ(names("").size(), 8U);
  const std::vector<std::string> refused = {"",
                                            "a b",
                                            "a%b",
                                            "a=b",
                                            std::string("a\0b", 3),
                                            "ü",
                                            "a\nb",
                                            "a\\b",
                                            std::string(kMostNameBytes + 1, 'a')};
  for (const std::string& name : refused) {
    EXPECT_EQ(registry_->get(name).error().code(), Code::kInvalid) << name;
    EXPECT_EQ(registry_->swap(name, 0, "").error().code(), Code::kInvalid) << name;
    EXPECT_EQ(registry_->remove(name, 1).error().code(), Code::kInvalid) << name;
    if (!name.empty()) {
      EXPECT_EQ(registry_->list(name).error().code(), Code::kInvalid) << name;
    }
  }
  const std::string longest(kMostNameBytes, '/');
  put(longest, "long");
  EXPECT_EQ(value_of(longest), "long");
}

TEST_P(RegistryTest, KeepsValuesUpToTheMaximum) {
  const std::string largest(kMostValueBytes, 'x');
  put("large", largest);
  EXPECT_EQ(value_of("large"), largest);
  EXPECT_EQ(registry_->swap("more", 0, largest + "x").error().code(), Code::kTooLarge);
}

TEST_P(RegistryTest, HasOneWinnerOfTwoContenders) {
  constexpr int kRounds = 20;
  std::vector<std::atomic<int>> winners(kRounds);
  const auto contend = [&](const std::string& who) {
    const auto mine = open();
    for (int round = 0; round < kRounds; ++round) {
      if (mine->swap("round/" + std::to_string(round), 0, who).take()) ++winners[static_cast<size_t>(round)];
    }
  };
  {
    const std::jthread first([&] { contend("first"); });
    const std::jthread second([&] { contend("second"); });
  }
  for (const auto& won : winners) EXPECT_EQ(won, 1);
  EXPECT_EQ(names("round/").size(), static_cast<size_t>(kRounds));
}

TEST_P(RegistryTest, CountsEveryIncrementOfManyThreadsOnce) {
  constexpr int kEach = 15;
  put("counter", "0");
  const auto count = [&] {
    const auto mine = open();
    for (int done = 0; done < kEach;) {
      const auto before = mine->get("counter").take().value();
      const std::string next = std::to_string(std::stoi(before.value) + 1);
      if (mine->swap("counter", before.revision, next).take()) ++done;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) threads.emplace_back(count);
  }
  EXPECT_EQ(value_of("counter"), std::to_string(4 * kEach));
}

TEST_P(RegistryTest, DropsEntriesOfALeaseThatIsNotRenewed) {
  const LeaseId lease = registry_->grant(milliseconds(2500)).take();
  const LeaseId other = registry_->grant(milliseconds(60'000)).take();
  put("held/a", "1", lease);
  put("held/b", "2", lease);
  put("held/c", "3", other);
  put("free", "4");
  ASSERT_TRUE(eventually([&] { return names("held/") == std::vector<std::string>{"held/c"}; }));
  EXPECT_FALSE(registry_->renew(lease).take());
  EXPECT_TRUE(registry_->renew(other).take());
  EXPECT_EQ(value_of("free"), "4");
  const auto late = registry_->swap("held/a", 0, "5", lease);
  ASSERT_FALSE(late.has_value());
  EXPECT_TRUE(late.error().is(kLeaseEnded)) << late.error().message();
}

TEST_P(RegistryTest, KeepsEntriesWhileTheirLeaseIsRenewed) {
  const LeaseId kept = registry_->grant(milliseconds(5000)).take();
  const LeaseId dropped = registry_->grant(milliseconds(5000)).take();
  put("kept", "1", kept);
  put("dropped", "2", dropped);
  bool renewed = true;
  // A lease of the same length ends meanwhile, so the renewals are what keeps this one.
  ASSERT_TRUE(eventually([&] {
    renewed = renewed && registry_->renew(kept).take();
    return value_of("dropped") == "(none)";
  }));
  EXPECT_TRUE(renewed);
  EXPECT_EQ(value_of("kept"), "1");
}

TEST_P(RegistryTest, EndsARevokedLeaseAtOnce) {
  const LeaseId lease = registry_->grant(milliseconds(60'000)).take();
  put("held", "1", lease);
  EXPECT_TRUE(registry_->revoke(lease).has_value());
  EXPECT_EQ(value_of("held"), "(none)");
  EXPECT_FALSE(registry_->renew(lease).take());
  EXPECT_TRUE(registry_->revoke(lease).has_value());
  EXPECT_FALSE(registry_->renew(LeaseId{123'456}).take());
}

TEST_P(RegistryTest, LetsALaterSwapChangeTheLeaseOfAnEntry) {
  const LeaseId lease = registry_->grant(milliseconds(60'000)).take();
  put("a", "1", lease);
  put("a", "2");
  put("b", "1");
  put("b", "2", lease);
  EXPECT_TRUE(registry_->revoke(lease).has_value());
  EXPECT_EQ(value_of("a"), "2");
  EXPECT_EQ(value_of("b"), "(none)");
}

TEST_P(RegistryTest, RefusesLeasesOfNoLength) {
  EXPECT_EQ(registry_->grant(milliseconds(0)).error().code(), Code::kInvalid);
  EXPECT_EQ(registry_->grant(milliseconds(-5)).error().code(), Code::kInvalid);
  EXPECT_EQ(registry_->grant(std::chrono::hours(1000)).error().code(), Code::kInvalid);
}

TEST_P(RegistryTest, TellsAWatchOfEveryChange) {
  std::atomic<int> calls = 0;
  const auto watch = registry_->watch("w/", [&] { ++calls; });
  const auto other = open();
  for (int round = 0; round < 10; ++round) {
    const int before = calls;
    const auto old = other->get("w/a").take();
    ASSERT_TRUE(other->swap("w/a", old ? old->revision : 0, "x").take().has_value());
    ASSERT_TRUE(eventually([&] { return calls > before; })) << round;
  }
  const int before = calls;
  ASSERT_TRUE(other->remove("w/a", other->get("w/a").take()->revision).take());
  EXPECT_TRUE(eventually([&] { return calls > before; }));
}

TEST_P(RegistryTest, TellsAWatchOfALeaseThatEnded) {
  std::atomic<bool> gone = false;
  const LeaseId lease = registry_->grant(milliseconds(2500)).take();
  put("w/held", "x", lease);
  const auto reader = open();
  // Looks only when it is called, so nothing but a call can show it.
  const auto watch = registry_->watch("w/", [&] {
    const auto entry = reader->get("w/held");
    if (entry && !entry->has_value()) gone = true;
  });
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

TEST_P(RegistryTest, CallsNobodyAfterAWatchIsGone) {
  std::atomic<int> calls = 0;
  auto watch = registry_->watch("", [&] { ++calls; });
  put("a", "1");
  ASSERT_TRUE(eventually([&] { return calls > 0; }));
  watch.reset();
  const int before = calls;
  std::atomic<int> others = 0;
  const auto other = registry_->watch("", [&] { ++others; });
  put("a", "2");
  put("a", "3");
  ASSERT_TRUE(eventually([&] { return others > 0; }));
  EXPECT_EQ(calls, before);
}

INSTANTIATE_TEST_SUITE_P(Every, RegistryTest, ::testing::Values("files", "etcd"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace millrace::cluster
