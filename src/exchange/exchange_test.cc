// Exchanges among threads with real files: nothing lost, equal to the simulation, bounded storage, crashes.
#include "exchange/exchange.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/file_lock.h"
#include "exchange/local_ranks.h"
#include "exchange/shipment.h"
#include "exchange/simulate.h"
#include "exchange/testing/stores.h"

namespace millrace::exchange {
namespace {

using testing::all_held;
using testing::Made;
using testing::make_stores;
using testing::on_ranks;
using testing::options_of;
using testing::TemporaryDirectory;

void expect_all(const std::vector<Status>& results) {
  for (size_t rank = 0; rank < results.size(); ++rank)
    EXPECT_TRUE(results[rank]) << "rank " << rank << ": " << results[rank].error().message();
}

Status run_epochs(const std::string& root, Group& group, ExchangeOptions options, uint64_t epochs) {
  auto exchange = MR_TRY(Exchange::open(rank_directory(root, group.rank()), group, std::move(options)));
  while (exchange->epoch() < epochs) {
    MR_TRY(exchange->begin());
    MR_TRY(exchange->commit());
  }
  return {};
}

Ranks residents_of(const std::string& root, uint32_t world) {
  Ranks ranks;
  for (uint32_t rank = 0; rank < world; ++rank)
    ranks.push_back((*SampleStore::open(rank_directory(root, rank)))->manifest().residents());
  return ranks;
}

TEST(ExchangeTest, BeginningTwiceIsRefused) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {40, 2});
  expect_all(on_ranks(2, [&](Group& group) -> Status {
    auto exchange = MR_TRY(Exchange::open(rank_directory(root, group.rank()), group, options_of("0.1")));
    MR_TRY(exchange->begin());
    EXPECT_EQ(exchange->begin().error().code(), Code::kInvalid);
    return exchange->commit();
  }));
}

class WorldTest : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, WorldTest, ::testing::Values(1, 2, 3, 8));

TEST_P(WorldTest, EveryEpochEqualsTheSimulationAndNothingIsLost) {
  const uint32_t world = GetParam();
  for (const auto& [policy, select] :
       std::vector<std::pair<Policy, Select>>{{Policy::kShift, Select::kOldest},
                                              {Policy::kShift, Select::kLabelAware},
                                              {Policy::kPaper, Select::kRandom}}) {
    const TemporaryDirectory directory;
    const std::string root = make_stores(directory, {401, world});
    const auto before = all_held(root, world);
    EXPECT_EQ(before.size(), 401U);
    ExchangeOptions options = options_of("0.5,0.2@2", select);
    options.plan.policy = policy;
    Simulation simulation(options.plan, *FractionSchedule::parse("0.5,0.2@2"), residents_of(root, world));
    for (uint64_t epoch = 1; epoch <= 4; ++epoch) {
      const auto figures = simulation.step();
      ASSERT_TRUE(figures);
      const auto exchange_once = [&](Group& group) -> Status {
        auto exchange = MR_TRY(Exchange::open(rank_directory(root, group.rank()), group, options));
        MR_TRY(exchange->begin());
        MR_TRY(exchange->commit());
        const Exchange::Digest digest = MR_TRY(exchange->digest());
        EXPECT_EQ(digest.owners, figures->owner_hash) << "epoch " << epoch;
        EXPECT_EQ(digest.samples, 401U);
        return {};
      };
      // Three ranks a machine: some samples are taken, others sent.
      expect_all(on_ranks(world, exchange_once, 3));
      EXPECT_EQ(residents_of(root, world), simulation.ranks());
    }
    EXPECT_EQ(all_held(root, world), before);
  }
}

TEST(ExchangeTest, StorageStaysBelowWhatIsHeldAndArrivesAndAConstant) {
  constexpr uint32_t kWorld = 4;
  for (const uint32_t per_node : {1U, kWorld}) {
    const TemporaryDirectory directory;
    const std::string root = make_stores(directory, {400, kWorld, Partition::kRandom});
    const auto exchange_often = [&](Group& group) -> Status {
      auto exchange = MR_TRY(
          Exchange::open(rank_directory(root, group.rank()), group, options_of("0.25", Select::kRandom)));
      for (int epoch = 0; epoch < 6; ++epoch) {
        MR_TRY(exchange->begin());
        MR_TRY(exchange->commit());
        uint64_t largest = 0;
        for (const Record& record : exchange->store()->manifest().records)
          largest = std::max(largest, record.bytes);
        const uint64_t live = exchange->store()->manifest().live_bytes();
        // Slack and piece are 32 KiB each; sizes differ between samples, and a file ends with its page.
        const uint64_t bound =
            static_cast<uint64_t>(1.25 * 1.1 * static_cast<double>(live)) + 64 * 1024 + 64 * 4096;
        EXPECT_LE(exchange->stats().peak_bytes, bound) << "epoch " << epoch << " live " << live;
      }
      return {};
    };
    expect_all(on_ranks(kWorld, exchange_often, per_node));
    EXPECT_EQ(all_held(root, kWorld).size(), 400U);
  }
}

TEST(ExchangeTest, WhatOneRankDropsNobodyCommits) {
  const TemporaryDirectory directory;
  constexpr uint32_t kWorld = 3;
  const std::string root = make_stores(directory, {120, kWorld});
  const auto before = all_held(root, kWorld);
  expect_all(on_ranks(kWorld, [&](Group& group) -> Status {
    auto exchange =
        MR_TRY(Exchange::open(rank_directory(root, group.rank()), group, options_of("0.5", Select::kRandom)));
    MR_TRY(exchange->begin());
    if (group.rank() == 1) {
      MR_TRY(exchange->cancel());
    } else {
      const Status committed = exchange->commit();
      EXPECT_FALSE(committed);
      EXPECT_EQ(committed.error().code(), Code::kCancelled);
      EXPECT_NE(committed.error().message().find("rank 1"), std::string::npos) << committed.error().message();
    }
    EXPECT_EQ(exchange->epoch(), 0U);
    // The next one goes well.
    MR_TRY(exchange->begin());
    MR_TRY(exchange->commit());
    EXPECT_EQ(exchange->epoch(), 1U);
    return {};
  }));
  EXPECT_EQ(all_held(root, kWorld), before);
}

TEST(NeighboursTest, AreTheRanksOfTheSameMachineAndLetGoOfWhatWasRemoved) {
  const TemporaryDirectory directory;
  const auto meet = [&](Group& group) -> Status {
    const std::string own = directory.path(fmt::format("rank-{}", group.rank()));
    std::filesystem::create_directory(own);
    MR_TRY(write_file_atomically(own + "/" + segment_name(3), fmt::format("of rank {}", group.rank())));
    const auto near = MR_TRY(Neighbours::meet(group, own, {5000, "testing"}));
    const uint32_t other = group.rank() ^ 1;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(near->reads(rank), rank == other);
      EXPECT_EQ(near->is_read_by(rank), rank == other);
    }
    EXPECT_FALSE(near->open(other, 4));
    MR_TRY(near->open(other, 3));
    EXPECT_EQ(near->segment(other, 3), fmt::format("of rank {}", other));
    near->forget_removed();
    EXPECT_EQ(near->segment(other, 3), fmt::format("of rank {}", other));
    MR_TRY(vote(group, {}, {5000, "testing"}));
    MR_TRY(remove_file_if_present(own + "/" + segment_name(3)));
    MR_TRY(vote(group, {}, {5000, "testing"}));
    near->forget_removed();
    MR_TRY(vote(group, {}, {5000, "testing"}));
    const std::string maps = *read_file("/proc/self/maps", 64 << 20);
    EXPECT_EQ(maps.find(directory.path()), std::string::npos);
    return {};
  };
  expect_all(on_ranks(4, meet, 2));
}

TEST(NeighboursTest, ARankWhoseDirectoryIsAnotherOneHereIsSentTo) {
  // As in containers, where the same path leads elsewhere.
  const TemporaryDirectory directory;
  const auto meet = [&](Group& group) -> Status {
    const std::string own = directory.path(fmt::format("rank-{}", group.rank()));
    std::filesystem::create_directory(own);
    const auto near = MR_TRY(Neighbours::meet(group, own + "/gone", {5000, "testing"}));
    EXPECT_FALSE(near->reads(1 - group.rank()));
    EXPECT_FALSE(near->is_read_by(1 - group.rank()));
    return {};
  };
  expect_all(on_ranks(2, meet, 2));
}

TEST(ExchangeTest, AnotherNumberOfRanksTakesOverWithoutLoss) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {300, 4});
  expect_all(on_ranks(4, [&](Group& group) { return run_epochs(root, group, options_of("0.3"), 2); }));
  const auto before = all_held(root, 4);
  const auto redeal = [&](uint32_t ranks, uint32_t world) {
    expect_all(on_ranks(ranks, [&](Group& group) -> Status {
      auto exchange = MR_TRY(Exchange::open(rank_directory(root, group.rank()), group, options_of("0.3")));
      return exchange->redeal(world);
    }));
  };
  redeal(4, 3);
  EXPECT_EQ(all_held(root, 3), before);
  for (uint32_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ((*SampleStore::open(rank_directory(root, rank)))->size(), 100U);
  EXPECT_EQ((*SampleStore::open(rank_directory(root, 3)))->size(), 0U);
  redeal(4, 4);
  EXPECT_EQ(all_held(root, 4), before);
  expect_all(on_ranks(4, [&](Group& group) { return run_epochs(root, group, options_of("0.3"), 6); }));
  EXPECT_EQ(all_held(root, 4), before);
}

TEST(ExchangeTest, StoresOfOneRootAreDealtAnewAndNotWhenSomeAreElsewhere) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {90, 3});
  const auto before = all_held(root, 3);
  ASSERT_TRUE(redeal_stores(root, 5, options_of("0.3")));
  EXPECT_EQ(count_stores(root), 5U);
  EXPECT_EQ(all_held(root, 5), before);
  ASSERT_TRUE(redeal_stores(root, 2, options_of("0.3")));
  EXPECT_EQ(count_stores(root), 2U);
  EXPECT_EQ(all_held(root, 2), before);
  EXPECT_TRUE(verify_stores(root, nullptr)->faults.empty());
  std::filesystem::rename(rank_directory(root, 1), directory.path("elsewhere"));
  const Status refused = redeal_stores(root, 4, options_of("0.3"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("only 1 of the 2"), std::string::npos);
  EXPECT_FALSE(verify_stores(root, nullptr)->faults.empty());
}

TEST(ExchangeTest, SomeOfTheStoresDoNotGoOnWithoutTheOthers) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {90, 3});
  ASSERT_TRUE(redeal_stores(root, 5, options_of("0.3")));
  const auto before = all_held(root, 5);
  for (const Status& opened : on_ranks(3, [&](Group& group) -> Status {
         MR_TRY(Exchange::open(rank_directory(root, group.rank()), group, options_of("0.3")));
         return {};
       })) {
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().message().find("3 ranks hold 54 of 90 samples"), std::string::npos)
        << opened.error().message();
  }
  EXPECT_EQ(all_held(root, 5), before);
  expect_all(on_ranks(5, [&](Group& group) { return run_epochs(root, group, options_of("0.3"), 2); }));
}

TEST(ExchangeTest, WhatAKilledRedealMadeIsSweptByTheNext) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {90, 3});
  const auto before = all_held(root, 3);
  for (const uint32_t rank : {3U, 4U}) {
    Manifest empty = read_current(rank_directory(root, 0)).take();
    empty.rank = rank;
    empty.segments.clear();
    empty.records.clear();
    std::filesystem::create_directories(rank_directory(root, rank));
    ASSERT_TRUE(Ledger::create(rank_directory(root, rank), empty));
  }
  EXPECT_TRUE(verify_stores(root, nullptr)->faults.empty());
  expect_all(on_ranks(3, [&](Group& group) { return run_epochs(root, group, options_of("0.3"), 2); }));
  EXPECT_TRUE(verify_stores(root, nullptr)->faults.empty());
  ASSERT_TRUE(redeal_stores(root, 4, options_of("0.3")));
  EXPECT_EQ(count_stores(root), 4U);
  EXPECT_EQ(all_held(root, 4), before);
}

TEST(ExchangeTest, OneProcessAtATimeDealsAnew) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {90, 3});
  {
    const FileLock held = FileLock::take(root + "/redeal.lock", 0666).take();
    EXPECT_EQ(redeal_stores(root, 5, options_of("0.3")).error().code(), Code::kUnavailable);
  }
  EXPECT_TRUE(redeal_stores(root, 5, options_of("0.3")));
}

TEST(ExchangeTest, TwoDataSetsAreExchangedAtOnce) {
  const TemporaryDirectory first;
  const TemporaryDirectory second;
  const std::string one = make_stores(first, {120, 3});
  const std::string other = make_stores(second, {60, 3});
  const auto before = std::pair(all_held(one, 3), all_held(other, 3));
  expect_all(on_ranks(3, [&](Group& group) -> Status {
    auto left = MR_TRY(Exchange::open(rank_directory(one, group.rank()), group, options_of("0.5")));
    auto right = MR_TRY(Exchange::open(rank_directory(other, group.rank()), group, options_of("0.3")));
    for (int epoch = 0; epoch < 4; ++epoch) {
      MR_TRY(left->begin());
      MR_TRY(right->begin());
      MR_TRY(right->commit());
      MR_TRY(left->commit());
    }
    return {};
  }));
  EXPECT_EQ(std::pair(all_held(one, 3), all_held(other, 3)), before);
}

TEST(ExchangeTest, EveryStoreThatCannotBeReadIsNamed) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {90, 3});
  for (const uint32_t rank : {0U, 2U}) {
    for (const auto& entry : std::filesystem::directory_iterator(rank_directory(root, rank)))
      if (entry.path().extension() == ".tar") std::filesystem::resize_file(entry.path(), 512);
  }
  const auto report = verify_stores(root, nullptr);
  ASSERT_TRUE(report) << report.error().message();
  const std::string faults = fmt::format("{}", fmt::join(report->faults, "\n"));
  EXPECT_NE(faults.find("rank 0: "), std::string::npos) << faults;
  EXPECT_NE(faults.find("rank 2: "), std::string::npos) << faults;
}

// Ranks that prepared the next epoch and were killed before they could commit it.
void prepare_only(const std::string& root, uint32_t world) {
  expect_all(on_ranks(world, [&](Group& group) -> Status {
    auto exchange = MR_TRY(Exchange::open(rank_directory(root, group.rank()), group, options_of("0.5")));
    return exchange->begin();
  }));
}

TEST(ExchangeTest, WhatOneRankCommittedAllFollow) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {60, 3});
  const auto before = all_held(root, 3);
  prepare_only(root, 3);
  ASSERT_TRUE(write_file_atomically(rank_directory(root, 1) + "/CURRENT", manifest_name(1, 0) + "\n"));
  EXPECT_TRUE(verify_stores(root, nullptr)->faults.empty());
  expect_all(on_ranks(3, [&](Group& group) { return run_epochs(root, group, options_of("0.5"), 1); }));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(read_current(rank_directory(root, rank))->epoch, 1U);
  EXPECT_EQ(all_held(root, 3), before);
}

TEST(ExchangeTest, WhatNobodyCommittedIsDropped) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {60, 3});
  const auto before = all_held(root, 3);
  prepare_only(root, 3);
  expect_all(on_ranks(3, [&](Group& group) { return run_epochs(root, group, options_of("0.5"), 0); }));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(read_current(rank_directory(root, rank))->epoch, 0U);
  EXPECT_FALSE(std::filesystem::exists(rank_directory(root, 1) + "/" + manifest_name(1, 0)));
  EXPECT_EQ(all_held(root, 3), before);
}

TEST(ExchangeTest, AnOldCopyOfAStoreIsRefused) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {60, 2});
  prepare_only(root, 2);
  ASSERT_TRUE(write_file_atomically(rank_directory(root, 0) + "/CURRENT", manifest_name(1, 0) + "\n"));
  std::filesystem::remove(rank_directory(root, 1) + "/" + manifest_name(1, 0));
  for (const Status& result :
       on_ranks(2, [&](Group& group) { return run_epochs(root, group, options_of("0.5"), 1); })) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message().find("rank 1 is at epoch 0 and cannot follow"), std::string::npos)
        << result.error().message();
  }
}

TEST(ExchangeTest, ABitThatFlippedIsNamedOnAllRanksAndTheEpochStays) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {200, 4});
  const auto store = SampleStore::open(rank_directory(root, 2));
  const Record victim = (*store)->manifest().records[17];
  {
    std::fstream file(rank_directory(root, 2) + "/" + segment_name(victim.segment),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(victim.offset + 600));
    file.put('\x7f');
  }
  // Everything leaves, so the damaged one does too.
  const auto results = on_ranks(4, [&](Group& group) { return run_epochs(root, group, options_of("1"), 1); });
  for (const Status& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Code::kCorrupt);
    EXPECT_NE(result.error().message().find(fmt::format("sample {}", victim.id)), std::string::npos)
        << result.error().message();
    EXPECT_NE(result.error().message().find("rank 2"), std::string::npos) << result.error().message();
    EXPECT_NE(result.error().message().find(segment_name(victim.segment)), std::string::npos)
        << result.error().message();
  }
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ((*SampleStore::open(rank_directory(root, rank)))->manifest().epoch, 0U);
}

TEST(ExchangeTest, ARankThatStallsIsNamed) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {60, 3});
  const auto results = on_ranks(3, [&](Group& group) -> Status {
    ExchangeOptions options = options_of("0.5");
    options.timeout_ms = 300;
    auto exchange = MR_TRY(Exchange::open(rank_directory(root, group.rank()), group, options));
    if (group.rank() == 1) return {};
    MR_TRY(exchange->begin());
    return exchange->commit();
  });
  for (const uint32_t rank : {0U, 2U}) {
    ASSERT_FALSE(results[rank]);
    EXPECT_EQ(results[rank].error().code(), Code::kUnavailable);
    EXPECT_NE(results[rank].error().message().find("rank 1 did not answer"), std::string::npos)
        << results[rank].error().message();
  }
}

TEST(ExchangeTest, StoresThatDoNotBelongTogetherAreRefused) {
  const TemporaryDirectory directory;
  const TemporaryDirectory other;
  const std::string root = make_stores(directory, {60, 2});
  const std::string strange = make_stores(other, {70, 2});
  for (const Status& result : on_ranks(2, [&](Group& group) {
         return run_epochs(group.rank() == 0 ? root : strange, group, options_of("0.5"), 1);
       })) {
    EXPECT_FALSE(result);
  }
  for (const Status& result : on_ranks(2, [&](Group& group) -> Status {
         MR_TRY(Exchange::open(rank_directory(root, 1 - group.rank()), group, options_of("0.5")));
         return {};
       })) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Code::kInvalid);
  }
  // One that is missing is everyone's error.
  for (const Status& result :
       on_ranks(3, [&](Group& group) { return run_epochs(root, group, options_of("0.5"), 1); })) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message().find("rank 2"), std::string::npos) << result.error().message();
  }
}

TEST(LedgerTest, TwoProcessesCannotExchangeOneStore) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {20, 1});
  const auto first = Ledger::open(rank_directory(root, 0));
  ASSERT_TRUE(first);
  const auto second = Ledger::open(rank_directory(root, 0));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
}

TEST(LedgerTest, ATornPreparedManifestAndALeftSegmentAreDropped) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {40, 2});
  const std::string one = rank_directory(root, 1);
  std::ofstream(one + "/" + manifest_name(1, 0)) << "MRPLS001 torn";
  std::ofstream(one + "/" + segment_name(77)) << "left over";
  expect_all(on_ranks(2, [&](Group& group) { return run_epochs(root, group, options_of("0.5"), 0); }));
  EXPECT_FALSE(std::filesystem::exists(one + "/" + manifest_name(1, 0)));
  EXPECT_FALSE(std::filesystem::exists(one + "/" + segment_name(77)));
  EXPECT_EQ(all_held(root, 2).size(), 40U);
}

TEST(LedgerTest, ADamagedCurrentManifestIsAnErrorThatNamesIt) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {40, 1});
  const std::string path = rank_directory(root, 0) + "/" + manifest_name(0, 0);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('\x55');
  }
  const auto opened = SampleStore::open(rank_directory(root, 0));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::kCorrupt);
  EXPECT_NE(opened.error().message().find(manifest_name(0, 0)), std::string::npos);
}

TEST(ManifestTest, IsReadBackAndEveryCutAndFlippedBitIsNoticed) {
  const TemporaryDirectory directory;
  const std::string root = make_stores(directory, {12, 1});
  const Manifest manifest = (*SampleStore::open(rank_directory(root, 0)))->manifest();
  const std::string bytes = encode_manifest(manifest);
  ASSERT_TRUE(parse_manifest(bytes));
  EXPECT_TRUE(*parse_manifest(bytes) == manifest);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(parse_manifest(std::string_view(bytes).substr(0, size)));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_FALSE(parse_manifest(damaged)) << at;
  }
}

TEST(ShipmentTest, MessagesCoverEveryByteInOrder) {
  const std::vector<uint64_t> sizes = {
      100, 2'000'000, 512 << 10, 512, (1 << 19) - 512, 1, (uint64_t{5} << 30) + 7, 3};
  const std::vector<Cut> cuts = cut_messages(sizes);
  uint64_t at = 0;
  for (const Cut& cut : cuts) {
    EXPECT_EQ(cut.offset, at);
    EXPECT_GT(cut.bytes, 0U);
    EXPECT_LE(cut.bytes, kMaxMessage);
    at += cut.bytes;
  }
  uint64_t all = 0;
  for (const uint64_t size : sizes) all += size;
  EXPECT_EQ(at, all);
  const std::vector<uint64_t> small(1000, 2560);
  EXPECT_EQ(cut_messages(small).size(), 3U);  // 409 to a message
}

TEST(ShipmentTest, LargeAndSmallSamplesArriveWhereTheyBelong) {
  constexpr uint32_t kWorld = 4;
  const auto body = [](uint32_t from, uint32_t to, uint32_t i) {
    const size_t size = i % 3 == 0 ? 600'000 + i : 100 + i * 131 % 5000;
    return fmt::format("{}>{}#{} ", from, to, i) + std::string(size, static_cast<char>('a' + i % 26));
  };
  expect_all(on_ranks(kWorld, [&](Group& group) -> Status {
    std::vector<std::string> bodies;
    bodies.reserve(1000);
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    std::string expected;
    for (uint32_t peer = 0; peer < kWorld; ++peer) {
      if (peer == group.rank()) continue;
      Outgoing& to = outgoing.emplace_back();
      to.to = peer;
      for (uint32_t i = 0; i < 40; ++i) {
        bodies.push_back(body(group.rank(), peer, i));
        to.add({i, bodies.back().size(), 0, 0, 0, 0, 0}, bodies.back());
        expected += body(peer, group.rank(), i);
      }
      incoming.push_back({peer, 40});
    }
    Shipment shipment(group, outgoing, incoming, {10'000, "testing"});
    const auto lists = MR_TRY(shipment.exchange_lists());
    EXPECT_EQ(lists.size(), kWorld - 1);
    std::string into(expected.size(), 0);
    MR_TRY(shipment.exchange_samples(std::as_writable_bytes(std::span(into))));
    EXPECT_TRUE(into == expected);
    return {};
  }));
}

TEST(GroupTest, SplitsHearOnlyEachOther) {
  expect_all(on_ranks(
      6,
      [](Group& group) -> Status {
        const uint32_t colour = MR_TRY(group.node());
        auto node = MR_TRY(group.split(colour));
        EXPECT_EQ(node->size(), 2U);
        const auto said = MR_TRY(gather_all(*node, std::to_string(group.rank()), {5000, "testing"}));
        const uint32_t first = group.rank() / 2 * 2;
        EXPECT_EQ(said, (std::vector<std::string>{std::to_string(first), std::to_string(first + 1)}));
        auto leaders = MR_TRY(group.split(node->rank()));
        EXPECT_EQ(leaders->size(), 3U);
        return {};
      },
      2));
}

TEST(GroupTest, AFailureOfOneIsTheSameErrorOnAll) {
  for (const Status& result : on_ranks(5, [](Group& group) -> Status {
         Status own;
         if (group.rank() == 3)
           own = make_error(Code::kNoSpace, "the drive is full").with_hint("buy another");
         return vote(group, own, {5000, "testing"});
       })) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Code::kNoSpace);
    EXPECT_EQ(result.error().message(), "rank 3: the drive is full");
    EXPECT_EQ(result.error().hint(), "buy another");
  }
}

}  // namespace
}  // namespace millrace::exchange
