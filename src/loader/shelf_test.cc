// Buckets and joined columns share what they fetch, and give the same batches as when each sample is fetched
// by itself.
#include "loader/shelf.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "loader/loader.h"
#include "loader/testing/shards.h"

namespace millrace::loader {
namespace {

using millrace::testing::TemporaryDirectory;

constexpr uint64_t kSamples = 1500;
constexpr uint64_t kPerShard = 500;

class ShelfTest : public ::testing::Test {
 protected:
  ShelfTest()
      : made_(testing::make_shards(directory_, kSamples, kPerShard)),
        catalogue_(testing::open_catalogue(stores_, made_.names, directory_.path("index"))) {}

  // Shards with the same keys, backwards, and a field of their own.
  std::shared_ptr<const Catalogue> lenders(const std::string& suffix) {
    const auto name = shard::OutputName::parse(directory_.path("lent-%04d") + suffix);
    MR_ASSERT(name.has_value());
    shard::ShardLimits limits;
    limits.max_samples = kPerShard;
    shard::ShardWriter writer(*name, limits, {});
    for (uint64_t start = 0; start < kSamples; start += kPerShard) {
      for (uint64_t i = start + kPerShard; i-- > start;) {
        const std::string score = std::to_string(10 * i);
        const shard::NewField fields[] = {{"score", score}};
        MR_ASSERT(writer.add(fmt::format("{:07}", i), fields).has_value());
      }
    }
    std::vector<std::string> names;
    for (const auto& summary : writer.finish().take()) names.push_back(summary.path);
    return testing::open_catalogue(stores_, names, directory_.path("lent-index"));
  }

  struct Run {
    std::vector<std::vector<int64_t>> labels;  // of every batch
    uint64_t fetches = 0;
    uint64_t bytes = 0;
  };
  // `check` sees every batch.
  Run run(const Catalogue& catalogue, const Recipe& recipe, const Start& start,
          const std::function<void(const Batch&)>& check) {
    const std::shared_ptr<const Catalogue> borrowed(&catalogue, [](const Catalogue*) {});
    auto loader = Loader::open(borrowed, recipe, start);
    EXPECT_TRUE(loader.has_value()) << loader.error().message();
    Run seen;
    while (true) {
      auto batch = (*loader)->next();
      EXPECT_TRUE(batch.has_value()) << batch.error().message();
      if (!batch || !*batch) break;
      const auto* labels = reinterpret_cast<const int64_t*>((*batch)->columns[0].memory.memory.get());
      seen.labels.emplace_back(labels, labels + (*batch)->size);
      check(**batch);
    }
    seen.fetches = (*loader)->meters().fetch.count;
    seen.bytes = (*loader)->meters().fetch.bytes;
    return seen;
  }

  TemporaryDirectory directory_;
  transfer::Stores stores_{transfer::Settings()};
  testing::MadeShards made_;
  std::shared_ptr<const Catalogue> catalogue_;
};

Recipe bucket_recipe() {
  Recipe recipe;
  recipe.seed = 3;
  recipe.window = 200;
  recipe.batch = 20;
  recipe.fields = {{"label", {"cls"}, FieldKind::kLabel, {}}, {"text", {"txt"}, FieldKind::kBytes, {}}};
  recipe.bucket_by = {"txt"};
  recipe.bucket_batches = 8;
  return recipe;
}

void expect_own_texts(const Batch& batch) {
  const auto* labels = reinterpret_cast<const int64_t*>(batch.columns[0].memory.memory.get());
  const auto* texts = reinterpret_cast<const char*>(batch.columns[1].memory.memory.get());
  for (uint64_t i = 0; i < batch.size; ++i) {
    const Piece piece = batch.columns[1].pieces[i];
    EXPECT_EQ(std::string_view(texts + piece.offset, piece.size),
              testing::body_of(static_cast<uint64_t>(labels[i])));
  }
}

TEST_F(ShelfTest, BucketsAreReadInStretchesOnce) {
  const Run whole = run(*catalogue_, bucket_recipe(), {}, expect_own_texts);
  EXPECT_EQ(whole.labels.size(), kSamples / 20);
  EXPECT_LT(whole.fetches, kSamples / 20);
  EXPECT_LT(whole.bytes, catalogue_->bytes() * 5 / 4);
  Recipe poor = bucket_recipe();
  poor.memory = 64 << 10;  // no pool fits
  const Run singly = run(*catalogue_, poor, {}, expect_own_texts);
  EXPECT_EQ(singly.labels, whole.labels);
  EXPECT_EQ(singly.fetches, kSamples);
  const Run rest = run(*catalogue_, bucket_recipe(), {0, 13}, expect_own_texts);
  EXPECT_EQ(rest.labels, std::vector(whole.labels.begin() + 13, whole.labels.end()));
}

TEST_F(ShelfTest, ARankOfManyReadsOnlyItsOwnSamplesOfBuckets) {
  const Run whole = run(*catalogue_, bucket_recipe(), {}, expect_own_texts);
  std::vector<std::vector<int64_t>> together(whole.labels.size());
  for (uint64_t rank = 0; rank < 4; ++rank) {
    const Run part = run(*catalogue_, bucket_recipe(), {0, 0, 1, rank, 4}, expect_own_texts);
    EXPECT_EQ(part.fetches, kSamples / 4);
    ASSERT_EQ(part.labels.size(), together.size());
    for (size_t i = 0; i < together.size(); ++i)
      together[i].insert(together[i].end(), part.labels[i].begin(), part.labels[i].end());
  }
  EXPECT_EQ(together, whole.labels);
}

void expect_own_scores(const Batch& batch) {
  const auto* labels = reinterpret_cast<const int64_t*>(batch.columns[0].memory.memory.get());
  const auto* scores = reinterpret_cast<const int64_t*>(batch.columns[1].memory.memory.get());
  for (uint64_t i = 0; i < batch.size; ++i) EXPECT_EQ(scores[i], 10 * labels[i]);
}

TEST_F(ShelfTest, JoinedColumnsAreReadInStretchesOnce) {
  Recipe recipe = bucket_recipe();
  recipe.fields[1] = {"score", {"score"}, FieldKind::kLabel, {}};
  for (const bool bucketed : {false, true}) {
    if (!bucketed) recipe.bucket_by.clear();
    if (bucketed) recipe.bucket_by = {"txt"};
    const auto lent = lenders(".tar");
    const auto joined = catalogue_->with_columns(*lent).take();
    const Run whole = run(*joined, recipe, {}, expect_own_scores);
    EXPECT_LT(whole.fetches, kSamples / 10) << bucketed;
    EXPECT_LT(whole.bytes, (catalogue_->bytes() + lent->bytes()) * 5 / 4) << bucketed;
    Recipe poor = recipe;
    poor.memory = 64 << 10;
    const Run singly = run(*joined, poor, {}, expect_own_scores);
    EXPECT_EQ(singly.labels, whole.labels) << bucketed;
    EXPECT_EQ(singly.fetches, 2 * kSamples) << bucketed;
  }
}

TEST_F(ShelfTest, CompressedShardsLendColumnsToo) {
  Recipe recipe = bucket_recipe();
  recipe.bucket_by.clear();
  recipe.fields[1] = {"score", {"score"}, FieldKind::kLabel, {}};
  const auto joined = catalogue_->with_columns(*lenders(".tar.gz")).take();
  EXPECT_EQ(run(*joined, recipe, {}, expect_own_scores).labels.size(), kSamples / recipe.batch);
}

TEST_F(ShelfTest, ALentShardThatWasCutFailsTheBatchThatNeedsIt) {
  const auto lent = lenders(".tar");
  const auto joined = catalogue_->with_columns(*lent).take();
  std::filesystem::resize_file(directory_.path("lent-0001.tar"), 10240);
  Recipe recipe = bucket_recipe();
  recipe.bucket_by.clear();
  recipe.window = 0;
  recipe.fields[1] = {"score", {"score"}, FieldKind::kLabel, {}};
  auto loader = Loader::open(joined, recipe, {}).take();
  auto batch = loader->next();
  uint64_t good = 0;
  for (; batch && *batch; batch = loader->next()) ++good;
  ASSERT_FALSE(batch.has_value());
  EXPECT_NE(batch.error().message().find("lent-0001.tar"), std::string::npos) << batch.error().message();
  EXPECT_LE(good, kPerShard / recipe.batch);
}

TEST_F(ShelfTest, TheLongestUnusedChunkIsPutAwayFirst) {
  Meters meters;
  Fetcher fetcher(*catalogue_, 1, nullptr, meters);
  const auto pool = std::make_shared<MemoryPool>(1 << 20);
  constexpr uint64_t kChunk = 64 << 10;
  // Room for three: each reaches a little into the next, by its last sample.
  Shelf shelf(*catalogue_, {kChunk, kChunk * 7 / 2}, {fetcher, pool});
  const auto first = shelf.take({0, 0});
  EXPECT_EQ(shelf.take({0, 1}).chunk, first.chunk) << "neighbours share";
  const auto unused = shelf.take({1, 0}).chunk;
  EXPECT_EQ(shelf.take({0, 2}).chunk, first.chunk) << "used just now";
  shelf.take({2, 0});
  shelf.take({2, kPerShard / 2});
  EXPECT_EQ(shelf.take({0, 3}).chunk, first.chunk) << "others were unused for longer";
  const auto second = shelf.take({1, 1});
  EXPECT_NE(second.chunk, unused);
  const auto bytes = second.chunk->get();
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message();
  EXPECT_EQ(bytes->substr(second.offset + 512, 3), "501") << "its label, fetched anew";
}

}  // namespace
}  // namespace millrace::loader
