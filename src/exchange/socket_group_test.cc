// Ranks over sockets: messages, splits, sorting as in one process, and ranks that break or do not belong.
#include "exchange/socket_group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "base/file.h"
#include "base/testing/temporary_directory.h"
#include "exchange/rank_sort.h"
#include "shard/sort.h"

namespace millrace::exchange {
namespace {

using millrace::testing::TemporaryDirectory;

class Ranks {
 public:
  explicit Ranks(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      listeners_.push_back(RankListener::open("127.0.0.1").take());
      addresses_.push_back({"127.0.0.1", listeners_.back().port()});
    }
  }
  SocketRanks of(uint32_t rank) const { return {rank, addresses_, "a secret of this group", 10'000}; }
  const RankListener& listener(uint32_t rank) const { return listeners_[rank]; }

  std::vector<Status> run(const std::function<Status(Group&)>& work) const {
    std::vector<Status> results(listeners_.size());
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < listeners_.size(); ++rank) {
      threads.emplace_back([this, rank, &work, &results] {
        auto group = open_socket_group(listeners_[rank], of(rank));
        results[rank] = group ? work(**group) : Status(group.take_error());
      });
    }
    threads.clear();
    return results;
  }

 private:
  std::vector<RankListener> listeners_;
  std::vector<net::HostAndPort> addresses_;
};

Status wait(Group& group, Group::Request request) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!MR_TRY(group.test(request))) {
    if (std::chrono::steady_clock::now() > end) return make_error(Code::kUnavailable, "it took too long");
    std::this_thread::yield();
  }
  return {};
}

TEST(SocketGroupTest, GathersWhatEveryRankSays) {
  const Ranks ranks(5);
  const auto results = ranks.run([](Group& group) -> Status {
    const auto all = MR_TRY(gather_all(group, std::string(1000 * group.rank(), 'a'), {20'000, "testing"}));
    for (uint32_t rank = 0; rank < group.size(); ++rank) EXPECT_EQ(all[rank].size(), 1000 * rank);
    return {};
  });
  for (const Status& result : results) EXPECT_TRUE(result) << result.error().message();
}

TEST(SocketGroupTest, KeepsTheOrderOfMessagesThatNobodyAskedForYet) {
  const Ranks ranks(2);
  const auto results = ranks.run([](Group& group) -> Status {
    const uint32_t other = 1 - group.rank();
    std::vector<std::string> sent;
    std::vector<Group::Request> requests;
    for (int i = 0; i < 20; ++i) sent.push_back(std::string(300'000, static_cast<char>('a' + i)));
    for (const std::string& one : sent) requests.push_back(MR_TRY(group.send(other, Tag::kRecords, one)));
    const std::string vote = "another tag overtakes none of its own";
    requests.push_back(MR_TRY(group.send(other, Tag::kVote, vote)));
    for (int i = 0; i < 20; ++i) {
      std::string got(300'000, ' ');
      const auto request =
          MR_TRY(group.receive(other, Tag::kRecords, std::as_writable_bytes(std::span(got))));
      MR_TRY(wait(group, request));
      EXPECT_EQ(got, sent[static_cast<size_t>(i)]);
    }
    std::string said(vote.size(), ' ');
    const auto voted = MR_TRY(group.receive(other, Tag::kVote, std::as_writable_bytes(std::span(said))));
    MR_TRY(wait(group, voted));
    EXPECT_EQ(said, vote);
    for (const Group::Request request : requests) MR_TRY(wait(group, request));
    return {};
  });
  for (const Status& result : results) EXPECT_TRUE(result) << result.error().message();
}

TEST(SocketGroupTest, SplitsIntoGroupsThatDoNotHearEachOther) {
  const Ranks ranks(4);
  const auto results = ranks.run([](Group& group) -> Status {
    const auto half = MR_TRY(group.split(group.rank() % 2));
    EXPECT_EQ(half->size(), 2u);
    const auto all = MR_TRY(gather_all(*half, std::to_string(group.rank()), {20'000, "testing"}));
    EXPECT_EQ(all[0], std::to_string(group.rank() % 2));
    EXPECT_EQ(all[1], std::to_string(group.rank() % 2 + 2));
    return {};
  });
  for (const Status& result : results) EXPECT_TRUE(result) << result.error().message();
}

TEST(SocketGroupTest, SaysWhichRankIsGone) {
  const Ranks ranks(3);
  const auto results = ranks.run([](Group& group) -> Status {
    if (group.rank() == 2) return {};  // ends, and its connections with it
    char byte = 0;
    return wait(group, MR_TRY(group.receive(2, Tag::kList, std::as_writable_bytes(std::span(&byte, 1)))));
  });
  for (const uint32_t rank : {0, 1}) {
    ASSERT_FALSE(results[rank]);
    EXPECT_EQ(results[rank].error().code(), Code::kUnavailable);
    EXPECT_NE(results[rank].error().message().find("rank 2 is gone"), std::string::npos);
  }
}

TEST(SocketGroupTest, RefusesAMessageThatIsLongerThanItsBuffer) {
  const Ranks ranks(2);
  const auto results = ranks.run([](Group& group) -> Status {
    if (group.rank() == 0) {
      const std::string bytes(100, 'x');
      const auto request = MR_TRY(group.send(1, Tag::kList, bytes));
      return wait(group, request);
    }
    std::string small(10, ' ');
    return wait(group, MR_TRY(group.receive(0, Tag::kList, std::as_writable_bytes(std::span(small)))));
  });
  EXPECT_TRUE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().code(), Code::kCorrupt);
}

TEST(SocketGroupTest, LetsNobodyInWhoDoesNotKnowTheSecret) {
  const Ranks ranks(2);
  std::vector<Status> results(2);
  {
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        SocketRanks options = ranks.of(rank);
        options.timeout_ms = 300;
        if (rank == 1) options.secret = "a guess";
        auto group = open_socket_group(ranks.listener(rank), options);
        results[rank] = group ? Status() : Status(group.take_error());
      });
    }
  }
  ASSERT_FALSE(results[0]);
  EXPECT_NE(results[0].error().message().find("rank 1 did not come"), std::string::npos);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().code(), Code::kDenied);
}

TEST(SocketGroupTest, SortsAsOneProcessDoes) {
  const TemporaryDirectory directory;
  std::vector<std::string> inputs;
  for (int shard = 0; shard < 5; ++shard) {
    inputs.push_back(directory.path(fmt::format("in-{}.tar", shard)));
    auto file = shard::ShardFile::create(inputs.back(), {}).take();
    for (int i = 0; i < 200; ++i) {
      const std::string bytes(static_cast<size_t>(100 + i * 7), static_cast<char>('a' + shard));
      const shard::NewField fields[] = {{"txt", bytes}};
      ASSERT_TRUE(file->add(fmt::format("{:03d}-{}", (i * 37) % 200, shard), fields));
    }
    ASSERT_TRUE(file->finish());
  }
  shard::SortOptions sort;
  sort.by = shard::SortBy::kRandom;
  sort.seed = 7;
  sort.temporary_directory = directory.path();
  sort.memory = 16 << 20;
  const shard::ShardLimits limits{200'000, UINT64_MAX};
  shard::ShardWriter writer(shard::OutputName::parse(directory.path("one-%03d.tar")).take(), limits, {});
  ASSERT_TRUE(
      shard::sort_samples(inputs, sort, [&](const tar::Sample& sample) { return writer.add(sample); }));
  const auto alone = writer.finish().take();

  const Ranks ranks(3);
  const auto results = ranks.run([&](Group& group) -> Status {
    RankSortOptions options;
    options.sort = sort;
    options.name = shard::OutputName::parse(directory.path("many-%03d.tar")).take();
    options.limits = limits;
    options.timeout_ms = 20'000;
    const RankSortReport report = MR_TRY(sort_over_ranks(group, inputs, options));
    EXPECT_EQ(report.shards.size(), alone.size());
    return {};
  });
  for (const Status& result : results) ASSERT_TRUE(result) << result.error().message();
  ASSERT_GT(alone.size(), 3u);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(read_file(directory.path(fmt::format("one-{:03d}.tar", i)), 1 << 20).take(),
              read_file(directory.path(fmt::format("many-{:03d}.tar", i)), 1 << 20).take());
  }
}

}  // namespace
}  // namespace millrace::exchange
