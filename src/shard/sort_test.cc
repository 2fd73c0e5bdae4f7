// The order of numbers, and the external sort with little memory.
#include "shard/sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "shard/writer.h"

namespace millrace::shard {
namespace {

using Texts = std::vector<std::string>;

// `count` samples with the fields txt (random bytes) and num, in `shards` shards.
Texts make_shards(const millrace::testing::TemporaryDirectory& directory, int shards, int count,
                  Random& random) {
  Texts paths;
  for (int shard = 0; shard < shards; ++shard) {
    paths.push_back(directory.path(fmt::format("in-{}.tar", shard)));
    auto file = ShardFile::create(paths.back(), {});
    EXPECT_TRUE(file);
    for (int i = 0; i < count; ++i) {
      std::string text(random.below(3000), 0);
      for (char& c : text) c = static_cast<char>(random.below(256));
      const std::string number = std::to_string(random.below(10));
      const NewField fields[] = {{"num", number}, {"txt", text}};
      EXPECT_TRUE((*file)->add(fmt::format("{}-{:04}", shard, i), fields));
    }
    EXPECT_TRUE((*file)->finish());
  }
  return paths;
}

struct Sorted {
  Texts keys;
  Texts numbers;
  Texts blocks;
  SortReport report;
};

Sorted sorted(const Texts& paths, const SortOptions& options) {
  Sorted result;
  auto report = sort_samples(paths, options, [&](const tar::Sample& sample) {
    result.keys.emplace_back(sample.key);
    result.numbers.emplace_back(sample.find("num")->bytes);
    result.blocks.emplace_back(sample.blocks);
    return Status();
  });
  EXPECT_TRUE(report) << (report ? "" : report.error().message());
  if (report) result.report = *report;
  return result;
}

class SortTest : public ::testing::Test {
 protected:
  SortOptions options(SortBy by, uint64_t memory, unsigned jobs) const {
    SortOptions options;
    options.by = by;
    options.memory = memory;
    options.jobs = jobs;
    options.field = "num";
    options.temporary_directory = directory_.path();
    options.reread = Reread::kNever;
    return options;
  }

  millrace::testing::TemporaryDirectory directory_;
  Random random_{20};
  static constexpr uint64_t kLittle = 4 << 20;
  static constexpr uint64_t kPlenty = 256 << 20;
};

TEST_F(SortTest, SpillingGivesTheSameAsMemoryAlone) {
  const Texts paths = make_shards(directory_, 3, 2500, random_);
  for (const SortBy by : {SortBy::kKey, SortBy::kNumber, SortBy::kRandom}) {
    const Sorted in_memory = sorted(paths, options(by, kPlenty, 1));
    EXPECT_EQ(in_memory.report.runs, 0U);
    EXPECT_EQ(in_memory.report.samples, 7500U);
    const Sorted spilled = sorted(paths, options(by, kLittle, 3));
    EXPECT_GT(spilled.report.runs, 3U);
    EXPECT_EQ(spilled.blocks, in_memory.blocks);
  }
}

TEST_F(SortTest, MoreRunsThanBuffersAreMergedInSteps) {
  const Texts paths = make_shards(directory_, 2, 14000, random_);
  const Sorted spilled = sorted(paths, options(SortBy::kKey, kLittle, 2));
  // Eight buffers of 256 KiB are half of 4 MiB; merging in steps makes further runs.
  EXPECT_GT(spilled.report.runs, 16U);
  EXPECT_TRUE(std::ranges::is_sorted(spilled.keys));
  EXPECT_EQ(spilled.keys.size(), 28000U);
  EXPECT_EQ(std::ranges::adjacent_find(spilled.keys), spilled.keys.end());
}

TEST_F(SortTest, RereadingGivesTheSameSamplesAndCarriesOnlyTheirPlaces) {
  Texts paths = make_shards(directory_, 3, 2500, random_);
  // Of a compressed shard, and of one whose samples' members are apart, bytes are carried.
  paths.push_back(directory_.path("packed.tar.gz"));
  auto packed = ShardFile::create(paths.back(), {});
  const NewField fields[] = {{"num", "4"}, {"txt", "packed"}};
  ASSERT_TRUE((*packed)->add("packed", fields));
  ASSERT_TRUE((*packed)->finish());
  for (const SortBy by : {SortBy::kKey, SortBy::kNumber, SortBy::kRandom, SortBy::kPlace}) {
    const Sorted carried = sorted(paths, options(by, kLittle, 2));
    EXPECT_GT(carried.report.runs, 0U);
    SortOptions reread = options(by, kLittle, 2);
    reread.reread = Reread::kAlways;
    const Sorted found = sorted(paths, reread);
    EXPECT_EQ(found.report.runs, 0U);
    EXPECT_EQ(found.blocks, carried.blocks);
    EXPECT_EQ(found.keys, carried.keys);
  }
}

TEST_F(SortTest, AnInputThatChangesBeforeItIsReadAgainIsNamed) {
  for (const bool is_shortened : {false, true}) {
    const Texts paths = make_shards(directory_, 2, 50, random_);
    SortOptions reread = options(SortBy::kKey, kPlenty, 1);
    reread.reread = Reread::kAlways;
    bool changed = false;
    const auto done = sort_samples(paths, reread, [&](const tar::Sample&) -> Status {
      if (std::exchange(changed, true)) return {};
      if (is_shortened) {
        std::filesystem::resize_file(paths[1], 2048);
        return {};
      }
      std::string other = *read_file(paths[0], 1 << 30);
      return write_file_atomically(paths[1], other.substr(1024));
    });
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message().find(paths[1]), std::string::npos) << done.error().message();
  }
}

TEST_F(SortTest, OnlyFilesThatFitIntoMemoryAreReread) {
  const Texts paths = make_shards(directory_, 1, 5, random_);
  EXPECT_EQ(choose_reread(paths), Reread::kAlways);
  EXPECT_EQ(choose_reread({paths[0], "-"}), Reread::kNever);
  EXPECT_EQ(choose_reread({paths[0], "http://127.0.0.1:1/b/x.tar"}), Reread::kNever);
  const std::string huge = directory_.path("huge.tar");
  std::ofstream(huge).put('x');
  std::filesystem::resize_file(huge, uint64_t{1} << 42);
  EXPECT_EQ(choose_reread({paths[0], huge}), Reread::kNever);
}

TEST_F(SortTest, EqualFieldsKeepTheirOrderInBothDirections) {
  const Texts paths = make_shards(directory_, 2, 300, random_);
  SortOptions falling = options(SortBy::kNumber, kPlenty, 2);
  falling.reverse = true;
  for (const SortOptions& chosen : {options(SortBy::kNumber, kPlenty, 2), falling}) {
    const Sorted result = sorted(paths, chosen);
    Texts numbers = result.numbers;
    std::ranges::sort(numbers);
    if (chosen.reverse) std::ranges::reverse(numbers);
    EXPECT_EQ(result.numbers, numbers);
    for (size_t i = 1; i < result.keys.size(); ++i) {
      if (result.numbers[i] == result.numbers[i - 1]) EXPECT_LT(result.keys[i - 1], result.keys[i]);
    }
  }
}

TEST_F(SortTest, SeedsGiveDifferentPermutationsOfTheSameSamples) {
  const Texts paths = make_shards(directory_, 2, 200, random_);
  SortOptions seeded = options(SortBy::kRandom, kPlenty, 1);
  const Sorted first = sorted(paths, seeded);
  seeded.seed = 1;
  const Sorted second = sorted(paths, seeded);
  EXPECT_NE(first.keys, second.keys);
  const auto in_order = [](Texts keys) {
    std::ranges::sort(keys);
    return keys;
  };
  EXPECT_EQ(in_order(first.keys), in_order(second.keys));
}

TEST_F(SortTest, ASampleLargerThanTheMemoryStillPasses) {
  const std::string path = directory_.path("big.tar");
  auto file = ShardFile::create(path, {});
  const std::string huge(kLittle + 1000, 'x');
  const NewField big[] = {{"num", "2"}, {"txt", huge}};
  const NewField small[] = {{"num", "1"}};
  ASSERT_TRUE((*file)->add("big", big));
  ASSERT_TRUE((*file)->add("small", small));
  ASSERT_TRUE((*file)->finish());
  EXPECT_EQ(sorted({path}, options(SortBy::kNumber, kLittle, 1)).keys, (Texts{"small", "big"}));
}

TEST_F(SortTest, AMissingOrWrongFieldIsAnErrorThatNamesTheSample) {
  const Texts paths = make_shards(directory_, 1, 5, random_);
  SortOptions missing = options(SortBy::kText, kPlenty, 1);
  missing.field = "nope";
  const auto ignore = [](const tar::Sample&) { return Status(); };
  const auto without = sort_samples(paths, missing, ignore);
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().message().find("sample \"0-0000\" has no field nope"), std::string::npos);
  SortOptions wrong = options(SortBy::kNumber, kPlenty, 1);
  wrong.field = "txt";
  EXPECT_FALSE(sort_samples(paths, wrong, ignore));
  EXPECT_FALSE(sort_samples(paths, options(SortBy::kKey, 1 << 20, 1), ignore));
}

TEST(NumberTest, BytesAreOrderedAsTheNumbersAre) {
  const Texts rising = {"-1e300",
                        "-9007199254740993",
                        "-9007199254740992",
                        "-3",
                        "-0.5",
                        "0",
                        "1e-300",
                        "0.5",
                        "7",
                        "10",
                        "1e9",
                        "9007199254740992",
                        "9007199254740993",
                        "9223372036854775000",
                        "1e300"};
  for (size_t i = 1; i < rising.size(); ++i) {
    EXPECT_LT(*number_as_bytes(rising[i - 1]), *number_as_bytes(rising[i]))
        << rising[i - 1] << " " << rising[i];
  }
  EXPECT_EQ(*number_as_bytes("-0"), *number_as_bytes("0"));
  EXPECT_EQ(*number_as_bytes(" 7\n"), *number_as_bytes("7.0"));
  EXPECT_EQ(*number_as_bytes("+7"), *number_as_bytes("7"));
}

TEST(NumberTest, WhatIsNoNumberIsRefused) {
  for (const char* text : {"", "x", "1x", "nan", "--1", "0x", "1e999"})
    EXPECT_FALSE(number_as_bytes(text)) << text;
}

}  // namespace
}  // namespace millrace::shard
