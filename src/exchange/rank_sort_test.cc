// Sorting over ranks: the output of any number of ranks is that of one process, byte for byte.
#include "exchange/rank_sort.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/random.h"
#include "exchange/record_stream.h"
#include "exchange/testing/stores.h"

namespace millrace::exchange {
namespace {

using shard::SortBy;
using testing::on_ranks;
using testing::TemporaryDirectory;

std::vector<std::string> make_inputs(const TemporaryDirectory& directory, uint64_t seed) {
  Random random(seed);
  std::vector<std::string> names;
  for (int shard = 0; shard < 5; ++shard) {
    names.push_back(directory.path(fmt::format("in-{}.tar", shard)));
    auto file = shard::ShardFile::create(names.back(), {});
    EXPECT_TRUE(file);
    const uint64_t count = shard == 2 ? 0 : random.below(120);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(random.below(20));
      const std::string text(random.below(i % 50 == 0 ? 200'000 : 3000), static_cast<char>('a' + i % 26));
      const shard::NewField fields[] = {{"num", number}, {"txt", text}};
      EXPECT_TRUE((*file)->add(fmt::format("{:05}-{}-{}", random.below(100'000), shard, i), fields));
    }
    EXPECT_TRUE((*file)->finish());
  }
  return names;
}

RankSortOptions options_for(const TemporaryDirectory& directory, SortBy by, const std::string& name) {
  RankSortOptions options;
  options.sort.by = by;
  options.sort.field = "num";
  options.sort.seed = 9;
  options.sort.memory = 4 << 20;
  options.sort.temporary_directory = directory.path();
  options.name = *shard::OutputName::parse(name);
  options.limits.max_bytes = 150'000;
  options.limits.max_samples = 40;
  return options;
}

// The bytes of all shards and indexes, by name without directory.
std::map<std::string, std::string> contents(const std::string& directory) {
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    found[entry.path().filename()] = *read_file(entry.path(), 1 << 30);
  return found;
}

std::map<std::string, std::string> by_one_process(const TemporaryDirectory& directory,
                                                  const std::vector<std::string>& inputs,
                                                  const RankSortOptions& options) {
  shard::ShardWriter writer(options.name, options.limits, options.output);
  EXPECT_TRUE(shard::sort_samples(inputs, options.sort,
                                  [&](const tar::Sample& sample) { return writer.add(sample); }));
  EXPECT_TRUE(writer.finish());
  return contents(directory.path());
}

TEST(RankSortTest, AnyNumberOfRanksWritesTheBytesOfOneProcess) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    const TemporaryDirectory source;
    const std::vector<std::string> inputs = make_inputs(source, seed);
    for (const SortBy by : {SortBy::kRandom, SortBy::kKey, SortBy::kText, SortBy::kNumber, SortBy::kPlace}) {
      for (const bool reverse : {false, true}) {
        if (reverse && by != SortBy::kNumber) continue;
        for (const char* pattern : {"/out-%03d.tar", "/one.tar"}) {
          if (pattern[2] == 'n' && by != SortBy::kRandom) continue;
          const TemporaryDirectory alone;
          RankSortOptions options = options_for(source, by, alone.path() + pattern);
          options.sort.reverse = reverse;
          options.sort.reread = shard::Reread::kNever;
          const auto expected = by_one_process(alone, inputs, options);
          for (const uint32_t ranks : {1U, 3U, 8U}) {
            const TemporaryDirectory together;
            options.sort.reread = ranks == 1 ? shard::Reread::kAuto : shard::Reread::kNever;
            if (ranks == 8 && seed == 2) options.sort.reread = shard::Reread::kAlways;
            options.name = *shard::OutputName::parse(together.path() + pattern);
            for (const Status& result : on_ranks(ranks, [&](Group& group) -> Status {
                   const RankSortReport report = MR_TRY(sort_over_ranks(group, inputs, options));
                   EXPECT_EQ(report.shards.size() * 2, expected.size());
                   return {};
                 })) {
              EXPECT_TRUE(result) << result.error().message();
            }
            EXPECT_TRUE(contents(together.path()) == expected)
                << ranks << " ranks, order " << static_cast<int>(by) << pattern;
          }
        }
      }
    }
  }
}

TEST(RankSortTest, NoSamplesAreOneEmptyShard) {
  const TemporaryDirectory directory;
  const TemporaryDirectory output;
  auto file = shard::ShardFile::create(directory.path("empty.tar"), {});
  ASSERT_TRUE((*file)->finish());
  const RankSortOptions options = options_for(directory, SortBy::kRandom, output.path("out-%03d.tar"));
  for (const Status& result : on_ranks(3, [&](Group& group) -> Status {
         MR_TRY(sort_over_ranks(group, {directory.path("empty.tar")}, options));
         return {};
       })) {
    EXPECT_TRUE(result);
  }
  EXPECT_EQ(output.names(), (std::vector<std::string>{"out-000.tar", "out-000.tar.mri"}));
}

TEST(RankSortTest, AShardThatCannotBeReadIsTheSameErrorOnAllRanks) {
  const TemporaryDirectory directory;
  const TemporaryDirectory output;
  std::vector<std::string> inputs = make_inputs(directory, 4);
  const std::string whole = *read_file(inputs[3], 1 << 30);
  ASSERT_TRUE(write_file_atomically(inputs[3], std::string_view(whole).substr(0, whole.size() / 2)));
  for (const SortBy by : {SortBy::kRandom, SortBy::kNumber}) {
    const RankSortOptions options = options_for(directory, by, output.path("out-%03d.tar"));
    for (const Status& result : on_ranks(4, [&](Group& group) -> Status {
           MR_TRY(sort_over_ranks(group, inputs, options));
           return {};
         })) {
      ASSERT_FALSE(result);
      EXPECT_NE(result.error().message().find("in-3.tar"), std::string::npos) << result.error().message();
    }
  }
  inputs.push_back(directory.path("absent.tar"));
  for (const Status& result : on_ranks(2, [&](Group& group) -> Status {
         MR_TRY(
             sort_over_ranks(group, inputs, options_for(directory, SortBy::kKey, output.path("o-%03d.tar"))));
         return {};
       })) {
    EXPECT_FALSE(result);
  }
}

TEST(RecordStreamTest, MessagesThatAreCutAreRefused) {
  std::string message;
  append_record(message, {"order", {3, 4}, "blocks"});
  append_record(message, {"", {5, 6}, ""});
  const auto nothing = [](const shard::RunRecord&) { return Status(); };
  EXPECT_TRUE(each_record(message, nothing));
  for (size_t size = 1; size < message.size(); ++size) {
    if (size == 32 + 11) continue;  // exactly the first record
    EXPECT_FALSE(each_record(std::string_view(message).substr(0, size), nothing)) << size;
  }
}

}  // namespace
}  // namespace millrace::exchange
