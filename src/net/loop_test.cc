// The loop with its coroutines: tasks, work from other threads, answers by callback, sockets, and an end in
// the middle.
#include "net/loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace millrace::net {
namespace {

// How many of them are alive: what a destroyed coroutine held must be gone with it.
struct Guest {
  explicit Guest(int& counter) : alive(counter) { ++alive; }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;
  ~Guest() { --alive; }
  int& alive;
};

struct Pair {
  Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0); }
  ~Pair() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  int ends[2] = {-1, -1};
};

Task<int> give(int value) {
  co_return value;
}

Task<int> fail() {
  throw std::runtime_error("thrown inside");
  co_return 0;
}

Task<int> add(int depth) {
  if (depth == 0) co_return 0;
  const int rest = co_await add(depth - 1);
  const int one = co_await give(1);
  co_return rest + one;
}

Task<void> add_into(int depth, int* into, Loop* loop) {
  *into = co_await add(depth);
  loop->stop();
}

TEST(LoopTest, TasksAwaitTasksHoweverDeep) {
  Loop loop;
  int sum = 0;
  loop.spawn(add_into(1'000, &sum, &loop));
  loop.run();
  EXPECT_EQ(sum, 1'000);
}

Task<void> catch_failure(std::string* into) {
  try {
    const int value = co_await fail();
    *into = std::to_string(value);
  } catch (const std::runtime_error& failure) {
    *into = failure.what();
  }
}

TEST(LoopTest, AnExceptionComesToWhoAwaits) {
  Loop loop;
  std::string said;
  loop.spawn(catch_failure(&said));
  EXPECT_EQ(said, "thrown inside");
}

TEST(LoopTest, ATaskThatIsNeverAwaitedNeverRunsAndLeaksNothing) {
  int alive = 0;
  {
    const auto make = [](int& counted) -> Task<void> {
      const Guest guest(counted);
      co_return;
    };
    const Task<void> task = make(alive);
  }
  EXPECT_EQ(alive, 0);
}

TEST(LoopTest, PostsOfManyThreadsAllRunInTheLoopsThread) {
  Loop loop;
  constexpr int kThreads = 4;
  constexpr int kEach = 5'000;
  int ran = 0;  // without a lock: only the loop's thread touches it
  const std::thread::id here = std::this_thread::get_id();
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) {
        loop.post([&] {
          EXPECT_EQ(std::this_thread::get_id(), here);
          if (++ran == kThreads * kEach) loop.stop();
        });
      }
    });
  }
  loop.run();
  EXPECT_EQ(ran, kThreads * kEach);
}

TEST(LoopTest, WorkMayPostWork) {
  Loop loop;
  int turns = 0;
  std::function<void()> again = [&] {
    if (++turns == 100)
      loop.stop();
    else
      loop.post(again);
  };
  loop.post(again);
  loop.run();
  EXPECT_EQ(turns, 100);
}

Task<void> say_often(Loop* loop, char letter, int times, std::string* into) {
  for (int i = 0; i < times; ++i) {
    *into += letter;
    co_await loop->next_turn();
  }
  if (letter == 'b') loop->stop();
}

TEST(LoopTest, LongWorkTakesTurns) {
  Loop loop;
  std::string said;
  loop.spawn(say_often(&loop, 'a', 3, &said));
  loop.spawn(say_often(&loop, 'b', 3, &said));
  loop.run();
  EXPECT_EQ(said, "ababab");
}

Task<void> turn_until(Loop* loop, const bool* told) {
  while (!*told) co_await loop->next_turn();
  loop->stop();
}

TEST(LoopTest, WorkThatAlwaysWantsAnotherTurnKeepsNoEventOut) {
  Loop loop;
  bool told = false;
  loop.spawn(turn_until(&loop, &told));
  const std::jthread thread([&] { loop.post([&] { told = true; }); });
  loop.run();
  EXPECT_TRUE(told);
}

TEST(LoopTest, ALoopThatGoesAwayForgetsTurns) {
  std::string said;
  {
    Loop loop;
    loop.spawn(say_often(&loop, 'a', 3, &said));
  }
  EXPECT_EQ(said, "a");
}

using Done = std::function<void(std::string)>;

Task<void> await_answer(Loop* loop, std::function<void(Done)> start, std::string* into) {
  *into = co_await await_callback<std::string>(*loop, std::move(start));
  loop->stop();
}

TEST(LoopTest, AnAnswerOfAnotherThreadResumesInTheLoop) {
  Loop loop;
  std::string answer;
  std::jthread thread;
  loop.spawn(await_answer(
      &loop, [&](Done done) { thread = std::jthread([done] { done("from there"); }); }, &answer));
  EXPECT_EQ(answer, "");
  loop.run();
  EXPECT_EQ(answer, "from there");
}

TEST(LoopTest, AnAnswerThatIsThereAtOnceCountsToo) {
  Loop loop;
  std::string answer;
  loop.spawn(await_answer(&loop, [](Done done) { done("at once"); }, &answer));
  loop.run();
  EXPECT_EQ(answer, "at once");
}

Task<void> wait_with_guest(Loop* loop, std::function<void(Done)> start, int* alive) {
  const Guest guest(*alive);
  const std::string answer = co_await await_callback<std::string>(*loop, std::move(start));
  ADD_FAILURE() << "resumed with " << answer;
}

TEST(LoopTest, ALoopThatGoesAwayTakesItsUnfinishedTasksWithIt) {
  int alive = 0;
  {
    Loop loop;
    for (int i = 0; i < 50; ++i) loop.spawn(wait_with_guest(&loop, [](const Done&) {}, &alive));
    EXPECT_EQ(alive, 50);
  }
  EXPECT_EQ(alive, 0);
}

Task<void> hold_until_told(Loop* loop, Task<void> inner, int* alive) {
  const Guest guest(*alive);
  co_await inner;
  loop->stop();
}

TEST(LoopTest, AWholeChainOfTasksIsDestroyedFromTheOutside) {
  int alive = 0;
  {
    Loop loop;
    loop.spawn(hold_until_told(&loop, wait_with_guest(&loop, [](const Done&) {}, &alive), &alive));
    EXPECT_EQ(alive, 2);
  }
  EXPECT_EQ(alive, 0);
}

TEST(LoopTest, AnAnswerToATaskThatIsGoneIsDropped) {
  int alive = 0;
  Loop loop;
  Done late;
  {
    const auto keep = [&](Done done) { late = std::move(done); };
    // The task lives in a loop of its own, the answer goes to the one that is still there.
    Loop owner;
    owner.spawn(wait_with_guest(&loop, keep, &alive));
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
  late("too late");
  loop.post([&] { loop.stop(); });
  loop.run();
}

using DoneWithNumber = std::function<void(std::shared_ptr<int>)>;

Task<void> await_number(Loop* loop, std::function<void(DoneWithNumber)> start) {
  const auto number = co_await await_callback<std::shared_ptr<int>>(*loop, std::move(start));
  ADD_FAILURE() << "resumed with " << *number;
}

TEST(LoopTest, AnAnswerAfterTheLoopIsGoneIsDroppedWithWhatItCarries) {
  auto loop = std::make_unique<Loop>();
  DoneWithNumber late;
  loop->spawn(await_number(loop.get(), [&](DoneWithNumber done) { late = std::move(done); }));
  loop.reset();
  auto number = std::make_shared<int>(7);
  const std::weak_ptr<int> seen = number;
  std::jthread([&] {
    late(std::move(number));
    late = nullptr;
  }).join();
  EXPECT_TRUE(seen.expired());
}

TEST(LoopTest, ThreadsMayAnswerWhileTheLoopGoesAway) {
  for (int round = 0; round < 200; ++round) {
    auto loop = std::make_unique<Loop>();
    std::vector<DoneWithNumber> answers;
    for (int i = 0; i < 16; ++i)
      loop->spawn(await_number(loop.get(), [&](DoneWithNumber done) { answers.push_back(std::move(done)); }));
    const std::weak_ptr<Inbox> inbox = loop->inbox();
    {
      const std::jthread answering([&] {
        for (DoneWithNumber& done : answers) done(std::make_shared<int>(round));
      });
      loop.reset();
    }
    answers.clear();
    EXPECT_TRUE(inbox.expired());
  }
}

TEST(LoopTest, APostThatHasNotRunGoesWithTheLoop) {
  auto carried = std::make_shared<int>(7);
  const std::weak_ptr<int> seen = carried;
  {
    Loop loop;
    loop.post([carried = std::move(carried)] { ADD_FAILURE() << "ran with " << *carried; });
    EXPECT_FALSE(seen.expired());
  }
  EXPECT_TRUE(seen.expired());
}

Task<void> read_all(Loop* loop, Watch* watch, std::string* into) {
  char piece[7];
  while (true) {
    const ssize_t got = ::recv(watch->descriptor, piece, sizeof piece, 0);
    if (got > 0) {
      into->append(piece, static_cast<size_t>(got));
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) break;
    watch->readable = false;
    co_await Loop::until_readable(*watch);
    if (watch->cancelled) {
      *into += "(cancelled)";
      break;
    }
  }
  loop->unwatch(*watch);
  loop->stop();
}

TEST(LoopTest, ASocketIsReadAsItsBytesArriveUntilItsEnd) {
  Pair pair;
  Loop loop;
  Watch watch;
  watch.descriptor = pair.ends[0];
  ASSERT_TRUE(loop.watch(watch));
  std::string received;
  loop.spawn(read_all(&loop, &watch, &received));
  std::jthread writer([&] {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(::send(pair.ends[1], "0123456789", 10, 0), 10);
    ::shutdown(pair.ends[1], SHUT_WR);
  });
  loop.run();
  EXPECT_EQ(received.size(), 1000U);
}

TEST(LoopTest, ACancelledWaitEndsAtOnce) {
  Pair pair;
  Loop loop;
  Watch watch;
  watch.descriptor = pair.ends[0];
  ASSERT_TRUE(loop.watch(watch));
  std::string received;
  loop.spawn(read_all(&loop, &watch, &received));
  loop.post([&] { loop.cancel(watch); });
  loop.run();
  EXPECT_EQ(received, "(cancelled)");
}

Task<void> write_until_full_then_wait(Watch* watch, bool* went_on) {
  const std::string bytes(1 << 16, 'x');
  while (::send(watch->descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
  }
  watch->writable = false;
  co_await Loop::until_writable(*watch);
  *went_on = true;
}

TEST(LoopTest, APeerThatStoppedSendingIsStillWaitedForByTheWriter) {
  Pair pair;
  Loop loop;
  Watch watch;
  watch.descriptor = pair.ends[0];
  ASSERT_TRUE(loop.watch(watch));
  bool went_on = false;
  ::shutdown(pair.ends[1], SHUT_WR);
  std::string received;
  loop.spawn(read_all(&loop, &watch, &received));  // sees the end of what the peer sends, and stops the loop
  ASSERT_TRUE(loop.watch(watch));
  watch.read_ended = true;
  loop.spawn(write_until_full_then_wait(&watch, &went_on));
  EXPECT_FALSE(went_on) << "the buffer is full, and the peer may yet read";
  loop.unwatch(watch);
}

TEST(LoopTest, WhatIsNoSocketIsNotWatched) {
  Loop loop;
  Watch watch;
  watch.descriptor = -1;
  EXPECT_FALSE(loop.watch(watch));
}

TEST(LoopTest, AListeningSocketIsToldByItsFunction) {
  Pair pair;
  Loop loop;
  Watch watch;
  watch.descriptor = pair.ends[0];
  int told = 0;
  watch.notify = [&] {
    ++told;
    loop.stop();
  };
  ASSERT_TRUE(loop.watch(watch));
  EXPECT_EQ(::send(pair.ends[1], "x", 1, 0), 1);
  loop.run();
  EXPECT_GE(told, 1);
  loop.unwatch(watch);
}

}  // namespace
}  // namespace millrace::net
