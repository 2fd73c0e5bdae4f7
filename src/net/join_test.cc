// Several tasks at once: their results, their failures, and racing.
#include "net/join.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "base/clock.h"
#include "net/pause.h"

namespace millrace::net {
namespace {

Task<int> give_after(Loop* loop, int value, uint64_t delay_us) {
  if (delay_us > 0) {
    const auto slept = co_await sleep_until(*loop, steady_us() + delay_us);
    EXPECT_TRUE(slept);
  }
  co_return value;
}

Task<int> throw_after(Loop* loop, uint64_t delay_us) {
  const auto slept = co_await sleep_until(*loop, steady_us() + delay_us);
  EXPECT_TRUE(slept);
  throw std::runtime_error("thrown in a branch");
}

Task<void> gather(Loop* loop, std::vector<Task<int>> tasks, std::vector<int>* into, std::string* failure) {
  try {
    *into = co_await when_all(std::move(tasks));
  } catch (const std::runtime_error& thrown) {
    *failure = thrown.what();
  }
  loop->stop();
}

struct Gathered {
  std::vector<int> results;
  std::string failure;
};

Gathered run_all(Loop& loop, std::vector<Task<int>> tasks) {
  Gathered gathered;
  loop.spawn(gather(&loop, std::move(tasks), &gathered.results, &gathered.failure));
  loop.run();
  return gathered;
}

TEST(WhenAllTest, GivesTheResultsInTheOrderOfTheTasks) {
  Loop loop;
  std::vector<Task<int>> tasks;
  tasks.push_back(give_after(&loop, 1, 3'000));
  tasks.push_back(give_after(&loop, 2, 0));
  tasks.push_back(give_after(&loop, 3, 1'000));
  EXPECT_EQ(run_all(loop, std::move(tasks)).results, (std::vector{1, 2, 3}));
}

TEST(WhenAllTest, NothingAndOnlyFinishedTasksEndAtOnce) {
  {
    Loop loop;
    EXPECT_TRUE(run_all(loop, {}).results.empty());
  }
  Loop loop;
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 1000; ++i) tasks.push_back(give_after(&loop, i, 0));
  EXPECT_EQ(run_all(loop, std::move(tasks)).results.size(), 1000U);
}

TEST(WhenAllTest, AnExceptionComesWhenAllHaveEnded) {
  Loop loop;
  std::vector<Task<int>> tasks;
  tasks.push_back(throw_after(&loop, 500));
  tasks.push_back(give_after(&loop, 2, 2'000));
  const uint64_t began = steady_us();
  EXPECT_EQ(run_all(loop, std::move(tasks)).failure, "thrown in a branch");
  EXPECT_GE(steady_us() - began, 2'000U);
}

TEST(WhenAllTest, GoesWithItsLoop) {
  std::vector<int> results;
  std::string failure;
  Loop loop;
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(give_after(&loop, i, 60'000'000));
  loop.spawn(gather(&loop, std::move(tasks), &results, &failure));
}

Task<Result<std::string>> answer_after(Loop* loop, std::string text, uint64_t delay_us, Cancellation* scope) {
  auto slept = co_await sleep_until(*loop, steady_us() + delay_us, scope);
  if (!slept) co_return slept.take_error();
  if (text.starts_with("no")) co_return make_error(Code::kNotFound, "{}", text);
  co_return text;
}

Task<void> race(Loop* loop, std::vector<Task<Result<std::string>>> tasks, Cancellation* scope,
                std::string* into) {
  const auto first = co_await when_any(std::move(tasks), *scope);
  *into = first ? *first : first.error().message();
  loop->stop();
}

TEST(WhenAnyTest, TheFirstSuccessEndsTheOthers) {
  Loop loop;
  Cancellation scope;
  std::vector<Task<Result<std::string>>> tasks;
  tasks.push_back(answer_after(&loop, "slow", 60'000'000, &scope));
  tasks.push_back(answer_after(&loop, "no, but soon", 500, &scope));
  tasks.push_back(answer_after(&loop, "quick", 2'000, &scope));
  std::string said;
  loop.spawn(race(&loop, std::move(tasks), &scope, &said));
  loop.run();
  EXPECT_EQ(said, "quick");
  EXPECT_EQ(loop.timers().first_us(), UINT64_MAX) << "none is left behind";
}

TEST(WhenAnyTest, WithoutASuccessTheFirstErrorCounts) {
  Loop loop;
  Cancellation scope;
  std::vector<Task<Result<std::string>>> tasks;
  tasks.push_back(answer_after(&loop, "no, says the second", 2'000, &scope));
  tasks.push_back(answer_after(&loop, "no, says the first", 500, &scope));
  std::string said;
  loop.spawn(race(&loop, std::move(tasks), &scope, &said));
  loop.run();
  EXPECT_EQ(said, "no, says the first");
}

}  // namespace
}  // namespace millrace::net
