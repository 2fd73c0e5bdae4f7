// Batches of real shards: complete, the same for every thread count and start, and errors that say where.
#include "loader/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/file.h"
#include "loader/report.h"
#include "loader/state.h"
#include "loader/testing/shards.h"

namespace millrace::loader {
namespace {

using millrace::testing::TemporaryDirectory;

struct Seen {
  std::vector<int64_t> labels;
  std::vector<std::string> bodies;
  bool operator==(const Seen&) const = default;
};

Recipe text_recipe() {
  Recipe recipe;
  recipe.seed = 5;
  recipe.window = 100;
  recipe.batch = 48;
  recipe.threads = 3;
  recipe.fields = {{"label", {"cls"}, FieldKind::kLabel, {}}, {"text", {"txt"}, FieldKind::kBytes, {}}};
  return recipe;
}

Seen look(const Batch& batch) {
  Seen seen;
  const auto* labels = reinterpret_cast<const int64_t*>(batch.columns[0].memory.memory.get());
  for (uint64_t i = 0; i < batch.size; ++i) {
    seen.labels.push_back(labels[i]);
    const Piece piece = batch.columns[1].pieces[i];
    seen.bodies.emplace_back(
        reinterpret_cast<const char*>(batch.columns[1].memory.memory.get()) + piece.offset, piece.size);
  }
  return seen;
}

class LoaderTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Catalogue> open(uint64_t samples, uint64_t per_shard,
                                        const std::string& suffix = ".tar") {
    made_ = testing::make_shards(directory_, samples, per_shard, suffix);
    return testing::open_catalogue(stores_, made_.names, directory_.path("cache"));
  }
  std::vector<Seen> run(const std::shared_ptr<const Catalogue>& catalogue, const Recipe& recipe,
                        const Start& start) {
    auto loader = Loader::open(catalogue, recipe, start);
    EXPECT_TRUE(loader.has_value()) << loader.error().message();
    std::vector<Seen> batches;
    while (true) {
      auto batch = (*loader)->next();
      EXPECT_TRUE(batch.has_value()) << batch.error().message();
      if (!batch || !*batch) return batches;
      batches.push_back(look(**batch));
    }
  }

  TemporaryDirectory directory_;
  transfer::Stores stores_{transfer::Settings()};
  testing::MadeShards made_;
};

TEST_F(LoaderTest, GivesEverySampleOnceWithItsOwnBytes) {
  const auto catalogue = open(1000, 130);
  std::set<int64_t> labels;
  for (const Seen& seen : run(catalogue, text_recipe(), {})) {
    for (size_t i = 0; i < seen.labels.size(); ++i) {
      EXPECT_TRUE(labels.insert(seen.labels[i]).second);
      EXPECT_EQ(seen.bodies[i], testing::body_of(static_cast<uint64_t>(seen.labels[i])));
    }
  }
  EXPECT_EQ(labels.size(), 1000u);
}

TEST_F(LoaderTest, ThreadsAndReadingBySampleDoNotChangeTheOrder) {
  const auto catalogue = open(700, 90);
  const auto wanted = run(catalogue, text_recipe(), {});
  for (const unsigned threads : {1U, 2U, 8U}) {
    Recipe recipe = text_recipe();
    recipe.threads = threads;
    recipe.fetch_threads = threads;
    EXPECT_EQ(run(catalogue, recipe, {}), wanted) << threads;
    recipe.memory = 1 << 10;  // no window fits
    EXPECT_EQ(run(catalogue, recipe, {}), wanted) << threads;
  }
}

// A consumer with long steps wakes nobody when it takes a batch: what makes the next must find the room by
// itself, without the consumer calling again.
TEST_F(LoaderTest, FillsTheRoomThatASlowConsumerMade) {
  const auto catalogue = open(960, 120);
  for (const unsigned threads : {1U, 3U}) {
    Recipe recipe = text_recipe();
    recipe.threads = threads;
    auto loader = Loader::open(catalogue, recipe, {});
    ASSERT_TRUE(loader.has_value()) << loader.error().message();
    const auto& filled = (*loader)->meters().untar.count;
    // Three batches are made ahead of the consumer, and twenty in all.
    for (uint64_t taken = 0; taken < 12; ++taken) {
      const uint64_t wanted = (taken + 3) * recipe.batch;
      const uint64_t step_begun = steady_ns();
      const auto is_long = [&] { return steady_ns() - step_begun > 6'000'000; };
      const auto is_too_long = [&] { return steady_ns() - step_begun > 20'000'000'000; };
      while ((filled < wanted || !is_long()) && !is_too_long()) std::this_thread::yield();
      ASSERT_EQ(filled, wanted) << "after " << taken << " batches, with " << threads << " threads";
      ASSERT_TRUE((*loader)->next().has_value());
    }
  }
}

TEST_F(LoaderTest, EveryStartGoesOnAsIfItHadNotStopped) {
  for (const char* suffix : {".tar", ".tar.gz"}) {
    TemporaryDirectory own;
    made_ = testing::make_shards(own, 400, 60, suffix);
    const auto catalogue = testing::open_catalogue(stores_, made_.names, own.path("cache"));
    const auto whole = run(catalogue, text_recipe(), {0, 0, 2});
    const uint64_t each = whole.size() / 2;
    for (uint64_t from = 0; from < each; ++from) {
      const auto rest = run(catalogue, text_recipe(), {0, from, 2});
      const std::vector<Seen> wanted(whole.begin() + static_cast<std::ptrdiff_t>(from), whole.end());
      EXPECT_EQ(rest, wanted) << suffix << " from " << from;
    }
  }
}

TEST_F(LoaderTest, RanksTogetherHaveTheBatchesOfOne) {
  const auto catalogue = open(500, 70);
  for (const EpochEnd end : {EpochEnd::kExact, EpochEnd::kDrop, EpochEnd::kPad}) {
    Recipe recipe = text_recipe();
    recipe.end = end;
    const auto alone = run(catalogue, recipe, {});
    for (const uint64_t world : {2u, 3u, 7u, 48u}) {
      std::vector<Seen> joined(alone.size());
      for (uint64_t rank = 0; rank < world; ++rank) {
        const auto part = run(catalogue, recipe, {0, 0, 1, rank, world});
        ASSERT_EQ(part.size(), alone.size());
        for (size_t i = 0; i < part.size(); ++i) {
          joined[i].labels.insert(joined[i].labels.end(), part[i].labels.begin(), part[i].labels.end());
          joined[i].bodies.insert(joined[i].bodies.end(), part[i].bodies.begin(), part[i].bodies.end());
        }
      }
      EXPECT_EQ(joined, alone) << world;
    }
  }
}

TEST_F(LoaderTest, ChosenSamplesAreADataSetOfTheirOwn) {
  const auto catalogue = open(600, 110);
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < 600; ++i) {
    if (i % 7 == 3 || (i > 200 && i < 330)) numbers.push_back(i);
  }
  const auto chosen = catalogue->select(numbers);
  ASSERT_TRUE(chosen.has_value()) << chosen.error().message();
  EXPECT_NE((*chosen)->identity(), catalogue->identity());
  std::vector<uint64_t> seen;
  const auto whole = run(*chosen, text_recipe(), {});
  for (const Seen& batch : whole) {
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      seen.push_back(static_cast<uint64_t>(batch.labels[i]));
      EXPECT_EQ(batch.bodies[i], testing::body_of(seen.back()));
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, numbers);
  Recipe recipe = text_recipe();
  recipe.memory = 1 << 10;
  EXPECT_EQ(run(*chosen, recipe, {}), whole);
  const std::vector<Seen> rest(whole.begin() + 2, whole.end());
  EXPECT_EQ(run(*chosen, text_recipe(), {0, 2}), rest);
  for (const std::vector<uint64_t>& bad : {std::vector<uint64_t>{}, {5, 5}, {9, 3}, {600}})
    EXPECT_FALSE(catalogue->select(bad).has_value());
  EXPECT_EQ(catalogue->select_with({"cls"}).take()->samples(), 600u);
  EXPECT_FALSE(catalogue->select_with({"wav"}).has_value());
}

TEST_F(LoaderTest, MixturesKeepTheirProportionsAndGoOnFromAnywhere) {
  TemporaryDirectory other_directory;
  const auto one = open(300, 70);
  const auto more = testing::make_shards(other_directory, 1000, 90);
  const auto other = testing::open_catalogue(stores_, more.names, other_directory.path("cache"));
  const auto both = Catalogue::join({one, other}).take();
  Recipe recipe = text_recipe();
  recipe.weights = {3, 1};
  const uint64_t each = count_batches(*both, recipe);
  EXPECT_EQ(each, 1300u / 48);
  auto loader = Loader::open(both, recipe, {0, 0, 3}).take();
  std::vector<Seen> whole;
  uint64_t from_one = 0;
  std::map<std::pair<uint32_t, uint64_t>, int> times;
  while (const std::shared_ptr<Batch> batch = loader->next().take()) {
    whole.push_back(look(*batch));
    for (const SampleRef sample : batch->samples) {
      from_one += sample.shard < one->shards().size();
      if (sample.shard < one->shards().size()) ++times[{sample.shard, sample.ordinal}];
    }
  }
  ASSERT_EQ(whole.size(), 3 * each);
  EXPECT_NEAR(static_cast<double>(from_one), static_cast<double>(whole.size()) * 48 * 0.75, 2);
  // Its own epochs are exact: after n full passes every sample has come n or n + 1 times.
  const int passes = static_cast<int>(from_one / 300);
  EXPECT_EQ(times.size(), 300u);
  for (const auto& [sample, count] : times) EXPECT_TRUE(count == passes || count == passes + 1);
  for (const uint64_t from : {1u, 7u, 20u}) {
    const std::vector<Seen> rest(whole.begin() + static_cast<std::ptrdiff_t>(from), whole.end());
    EXPECT_EQ(run(both, recipe, {0, from, 3}), rest);
  }
  const auto left = run(both, recipe, {1, 0, 1, 0, 2});
  const auto right = run(both, recipe, {1, 0, 1, 1, 2});
  for (size_t i = 0; i < left.size(); ++i) {
    std::vector<int64_t> joined = left[i].labels;
    joined.insert(joined.end(), right[i].labels.begin(), right[i].labels.end());
    EXPECT_EQ(joined, whole[each + i].labels);
  }
}

TEST_F(LoaderTest, StreamedShardsGiveEverySampleOnceAndGoOn) {
  open(500, 60, ".tar.gz");
  CatalogueOptions options;
  options.names = made_.names;
  options.indexed = false;
  const auto streamed = Catalogue::open(stores_, options).take();
  const auto whole = run(streamed, text_recipe(), {});
  std::set<int64_t> labels;
  for (const Seen& seen : whole) {
    for (size_t i = 0; i < seen.labels.size(); ++i) {
      EXPECT_TRUE(labels.insert(seen.labels[i]).second);
      EXPECT_EQ(seen.bodies[i], testing::body_of(static_cast<uint64_t>(seen.labels[i])));
    }
  }
  EXPECT_EQ(labels.size(), 500u);
  EXPECT_EQ(run(streamed, text_recipe(), {}), whole);
  const std::vector<Seen> rest(whole.begin() + 4, whole.end());
  EXPECT_EQ(run(streamed, text_recipe(), {0, 4}), rest);
  labels.clear();
  for (uint64_t rank = 0; rank < 3; ++rank) {
    for (const Seen& seen : run(streamed, text_recipe(), {0, 0, 1, rank, 3}))
      labels.insert(seen.labels.begin(), seen.labels.end());
  }
  EXPECT_EQ(labels.size(), 500u);
  EXPECT_FALSE(streamed->select({1}).has_value());
  std::filesystem::resize_file(made_.names[2], 500);
  auto loader = Loader::open(streamed, text_recipe(), {}).take();
  Result<std::shared_ptr<Batch>> last = loader->next();
  while (last && *last) last = loader->next();
  ASSERT_FALSE(last.has_value());
  EXPECT_NE(last.error().message().find(made_.names[2]), std::string::npos) << last.error().message();
}

TEST_F(LoaderTest, AShardCutSinceItWasIndexedIsAnErrorThatNamesIt) {
  const auto catalogue = open(300, 100);
  std::filesystem::resize_file(made_.names[1], 20'000);
  Recipe recipe = text_recipe();
  auto loader = Loader::open(catalogue, recipe, {});
  ASSERT_TRUE(loader.has_value());
  while (true) {
    auto batch = (*loader)->next();
    if (batch) {
      ASSERT_NE(*batch, nullptr) << "the epoch ended without an error";
      continue;
    }
    EXPECT_NE(batch.error().message().find(made_.names[1]), std::string::npos) << batch.error().message();
    EXPECT_NE(batch.error().message().find("byte"), std::string::npos) << batch.error().message();
    break;
  }
}

TEST_F(LoaderTest, AFlippedBitInAFieldsOwnBytesIsFoundAndNamed) {
  const auto catalogue = open(60, 60);
  const std::string& shard = made_.names[0];
  const std::string whole = read_file(shard, 1 << 20).take();
  for (const std::string number : {"17", "40"}) {
    std::string damaged = whole;
    damaged[whole.find("<" + number + ">") + 1] ^= 1;
    std::ofstream(shard, std::ios::binary) << damaged;
    auto loader = Loader::open(catalogue, text_recipe(), {});
    Result<std::shared_ptr<Batch>> batch = (*loader)->next();
    while (batch && *batch) batch = (*loader)->next();
    ASSERT_FALSE(batch.has_value()) << number;
    EXPECT_EQ(batch.error().code(), Code::kCorrupt);
    const std::string wanted = "member 00000" + number + ".txt: its bytes have the checksum";
    EXPECT_NE(batch.error().message().find(shard), std::string::npos) << batch.error().message();
    EXPECT_NE(batch.error().message().find(wanted), std::string::npos) << batch.error().message();
  }
}

TEST_F(LoaderTest, BadSamplesAreSkippedOrReplacedAndCounted) {
  // Labels of every tenth sample are no numbers.
  const auto name = shard::OutputName::parse(directory_.path("bad-%d.tar"));
  shard::ShardWriter writer(*name, {}, {});
  for (int i = 0; i < 100; ++i) {
    const std::string label = i % 10 == 3 ? "none" : std::to_string(i);
    const shard::NewField fields[] = {{"cls", label}, {"txt", label}};
    ASSERT_TRUE(writer.add(fmt::format("{:04}", i), fields).has_value());
  }
  ASSERT_TRUE(writer.finish().has_value());
  const auto catalogue =
      testing::open_catalogue(stores_, {directory_.path("bad-0.tar")}, directory_.path("cache"));
  Recipe recipe = text_recipe();
  recipe.batch = 20;
  recipe.on_error = OnError::kSkip;
  uint64_t skipped = 0;
  for (const Seen& seen : run(catalogue, recipe, {})) {
    skipped += seen.labels.size();
    for (size_t i = 0; i < seen.labels.size(); ++i) EXPECT_EQ(seen.bodies[i], std::to_string(seen.labels[i]));
  }
  EXPECT_EQ(skipped, 90u);
  recipe.on_error = OnError::kSubstitute;
  for (const Seen& seen : run(catalogue, recipe, {})) {
    EXPECT_EQ(seen.labels.size(), 20u);
    for (size_t i = 0; i < seen.labels.size(); ++i) EXPECT_EQ(seen.bodies[i], std::to_string(seen.labels[i]));
  }
  recipe.most_errors = 4;
  auto loader = Loader::open(catalogue, recipe, {});
  Result<std::shared_ptr<Batch>> last = (*loader)->next();
  while (last && *last) last = (*loader)->next();
  ASSERT_FALSE(last.has_value());
  EXPECT_NE(last.error().message().find("member 00"), std::string::npos) << last.error().message();
  EXPECT_GT((*loader)->faults().size(), 4u);
}

TEST_F(LoaderTest, StoppingEndsAWaitingConsumerAndAllThreads) {
  const auto catalogue = open(2000, 500);
  for (int i = 0; i < 50; ++i) {
    auto loader = Loader::open(catalogue, text_recipe(), {0, 0, 100});
    ASSERT_TRUE(loader.has_value());
    for (int taken = 0; taken < i % 5; ++taken) ASSERT_TRUE((*loader)->next().has_value());
    (*loader)->stop();
    EXPECT_EQ((*loader)->next().error().code(), Code::kCancelled);
  }
}

TEST_F(LoaderTest, MemoryStaysWithinWhatWasAllowed) {
  const auto catalogue = open(20'000, 5000);
  Recipe recipe = text_recipe();
  recipe.memory = 8 << 20;
  recipe.window = 2000;
  auto loader = Loader::open(catalogue, recipe, {});
  while (true) {
    auto batch = (*loader)->next();
    ASSERT_TRUE(batch.has_value());
    if (!*batch) break;
  }
  EXPECT_LE((*loader)->memory_peak(), recipe.memory);
}

TEST_F(LoaderTest, StatesOfOtherRunsAreRefused) {
  const auto catalogue = open(100, 50);
  const Recipe recipe = text_recipe();
  const std::string text = format_state({3, 7}, *catalogue, recipe);
  EXPECT_LT(text.size(), 1024u);
  const auto back = parse_state(text, *catalogue, recipe);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, (State{3, 7}));
  Recipe other = recipe;
  other.window = 9;
  EXPECT_NE(parse_state(text, *catalogue, other).error().message().find("window"), std::string::npos);
  for (const char* bad : {"", "[]", "{}", "{\"version\":1}", "nonsense"})
    EXPECT_FALSE(parse_state(bad, *catalogue, recipe).has_value()) << bad;
}

TEST_F(LoaderTest, IndexesAreBuiltOnceAndThenFoundInTheCache) {
  open(100, 25);
  for (const std::string& name : made_.names) std::filesystem::remove(name + ".mri");
  const auto built = testing::open_catalogue(stores_, made_.names, directory_.path("cache"));
  EXPECT_EQ(built->count(IndexOrigin::kBuilt), 4u);
  const auto cached = testing::open_catalogue(stores_, made_.names, directory_.path("cache"));
  EXPECT_EQ(cached->count(IndexOrigin::kCache), 4u);
  EXPECT_EQ(cached->identity(), built->identity());
}

TEST_F(LoaderTest, AReportNamesALimit) {
  const auto catalogue = open(500, 100);
  auto loader = Loader::open(catalogue, text_recipe(), {});
  while (true) {
    auto batch = (*loader)->next();
    ASSERT_TRUE(batch.has_value());
    if (!*batch) break;
  }
  const Report report = make_report(**loader);
  EXPECT_EQ(report.samples, 500u);
  EXPECT_FALSE(report.limit.empty());
  EXPECT_NE(format_report(report).find("limit: "), std::string::npos);
}

}  // namespace
}  // namespace millrace::loader
