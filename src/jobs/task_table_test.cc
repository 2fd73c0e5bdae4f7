// Claims of several nodes, results, lost nodes, and tables that nobody wrote.
#include "jobs/task_table.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace millrace::jobs {
namespace {

const auto kAny = [](size_t) { return true; };

TEST(TaskTableTest, GivesATaskToOneClaimantOnly) {
  TaskTable table(5);
  EXPECT_EQ(table.claim("a", 2, kAny), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(table.claim("b", 9, kAny), (std::vector<size_t>{2, 3, 4}));
  EXPECT_TRUE(table.claim("c", 9, kAny).empty());
  EXPECT_EQ(table.claimed_by("b"), (std::vector<size_t>{2, 3, 4}));
  EXPECT_EQ(table.count().claimed, 5U);
}

TEST(TaskTableTest, TakesOnlyTasksThatMayBeTaken) {
  TaskTable table(6);
  EXPECT_EQ(table.claim("a", 9, [](size_t task) { return task % 2 == 1; }), (std::vector<size_t>{1, 3, 5}));
  EXPECT_EQ(table.count().free, 3U);
}

TEST(TaskTableTest, AddsTheSumsOfATaskOnce) {
  TaskTable table(2);
  table.claim("a", 2, kAny);
  EXPECT_TRUE(table.finish("a", 0, {{"bytes", 10}}));
  EXPECT_FALSE(table.finish("a", 0, {{"bytes", 10}}));
  EXPECT_FALSE(table.finish("b", 1, {{"bytes", 10}}));
  EXPECT_TRUE(table.finish("a", 1, {{"bytes", 5}}));
  EXPECT_EQ(table.sums(), (Sums{{"bytes", 15}}));
  EXPECT_EQ(table.count().done, 2U);
}

TEST(TaskTableTest, TriesATaskSoOftenAndThenGivesItUp) {
  TaskTable table(1);
  for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_EQ(table.claim("a", 1, kAny).size(), 1U) << attempt;
    EXPECT_TRUE(table.fail("a", 0, 3));
    EXPECT_EQ(table.attempts(0), attempt);
  }
  EXPECT_TRUE(table.claim("a", 1, kAny).empty());
  EXPECT_EQ(table.failed(), (std::vector<size_t>{0}));
  EXPECT_EQ(table.retry(), 1U);
  EXPECT_EQ(table.attempts(0), 0U);
  EXPECT_EQ(table.claim("a", 1, kAny).size(), 1U);
}

TEST(TaskTableTest, GivesTheTasksOfALostNodeToOthers) {
  TaskTable table(3);
  table.claim("dead", 2, kAny);
  table.claim("alive", 1, kAny);
  EXPECT_EQ(table.release([](const std::string& who) { return who == "dead"; }), 2U);
  EXPECT_FALSE(table.finish("dead", 0, {}));
  EXPECT_EQ(table.claim("alive", 9, kAny), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(table.count().claimed, 3U);
}

TEST(TaskTableTest, HasRoomForNewClaimantsWhenOldOnesHoldNothing) {
  TaskTable table(kMostTasks);
  for (size_t i = 0; i < kMostClaimants; ++i) ASSERT_EQ(table.claim(std::to_string(i), 1, kAny).size(), 1U);
  EXPECT_TRUE(table.claim("one more", 1, kAny).empty());
  ASSERT_TRUE(table.finish("3", 3, {}));
  EXPECT_EQ(table.claim("one more", 1, kAny).size(), 1U);
}

TEST(TaskTableTest, ReadsWhatItWrote) {
  TaskTable table(10);
  table.claim("1:abc", 4, kAny);
  table.finish("1:abc", 1, {{"bytes_in", 7}, {"counter:cats", -2}});
  table.fail("1:abc", 2, 3);
  table.fail("1:abc", 3, 1);
  const TaskTable read = TaskTable::decode(table.encode()).take();
  EXPECT_EQ(read.encode(), table.encode());
  EXPECT_EQ(read.claimed_by("1:abc"), (std::vector<size_t>{0}));
  EXPECT_EQ(read.attempts(2), 1U);
  EXPECT_EQ(read.failed(), (std::vector<size_t>{3}));
  EXPECT_EQ(read.sums().at("counter:cats"), -2);
}

TEST(TaskTableTest, RefusesTablesThatNobodyWrote) {
  for (const char* text :
       {"", "[]", "{\"states\": 1}", R"({"states": "A"})", R"({"states": "q"})",
        R"({"states": ".", "attempts": {"1": 1}})", R"({"states": ".", "attempts": {"0": 0}})",
        R"({"states": ".", "more": 1})", R"({"states": ".", "sums": {"a": "b"}})",
        R"({"states": "A", "claimants": [""]})"}) {
    const auto read = TaskTable::decode(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), Code::kCorrupt) << text;
  }
  EXPECT_FALSE(TaskTable::decode("{\"states\": \"" + std::string(kMostTasks + 1, '.') + "\"}"));
}

// Nodes that claim, finish, fail and die in any order: every task is done once, and its sum counted once.
TEST(TaskTableTest, LosesNoTaskAndCountsNoneTwiceWhateverNodesDo) {
  constexpr size_t kTasks = 200;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    TaskTable table(kTasks);
    uint64_t born = 4;
    std::vector<std::string> nodes = {"0", "1", "2", "3"};
    while (table.count().done < kTasks) {
      const size_t which = random.below(nodes.size());
      const std::string node = nodes[which];
      const std::vector<size_t> own = table.claimed_by(node);
      const uint64_t what = random.below(10);
      if (what == 0) {
        nodes[which] = std::to_string(born++);
        table.release([&](const std::string& who) { return who == node; });
      } else if (own.empty()) {
        table.claim(node, 1 + random.below(20), kAny);
      } else if (what < 3) {
        table.fail(node, own[random.below(own.size())], UINT32_MAX);
      } else {
        table.finish(node, own[random.below(own.size())], {{"tasks", 1}});
      }
      table = TaskTable::decode(table.encode()).take();
    }
    EXPECT_EQ(table.sums().at("tasks"), static_cast<int64_t>(kTasks)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace millrace::jobs
