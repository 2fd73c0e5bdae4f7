// Tests several threads on one loader, catalogue, cache or keep at once. Worth most under ThreadSanitizer.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/random.h"
#include "decode/testing/encode.h"
#include "loader/loader.h"
#include "loader/random_access.h"
#include "loader/report.h"
#include "loader/testing/shards.h"
#include "net/testing/script_server.h"

namespace millrace::loader {
namespace {

using millrace::testing::ScriptServer;
using millrace::testing::TemporaryDirectory;

constexpr uint64_t kSamples = 600;

Recipe text_recipe() {
  Recipe recipe;
  recipe.window = 100;
  recipe.batch = 30;
  recipe.threads = 3;
  recipe.fetch_threads = 3;
  recipe.fields = {{"label", {"cls"}, FieldKind::kLabel, {}}, {"text", {"txt"}, FieldKind::kBytes, {}}};
  return recipe;
}

uint64_t sum_of_labels(const Batch& batch) {
  const auto* labels = reinterpret_cast<const int64_t*>(batch.columns[0].memory.memory.get());
  uint64_t sum = 0;
  for (uint64_t i = 0; i < batch.size; ++i) sum += static_cast<uint64_t>(labels[i]);
  return sum;
}

// Through an epoch: the sum of all labels, or why it ended.
Result<uint64_t> run(const std::shared_ptr<const Catalogue>& catalogue, const Recipe& recipe,
                     Companions companions = {}) {
  auto loader = MR_TRY(Loader::open(catalogue, recipe, {}, std::move(companions)));
  uint64_t sum = 0;
  while (true) {
    const std::shared_ptr<Batch> batch = MR_TRY(loader->next());
    if (!batch) return sum;
    sum += sum_of_labels(*batch);
  }
}

// Answers for the files of a directory, whole or in ranges.
ScriptServer::Answer answer_from(const std::string& directory, const ScriptServer::Asked& asked) {
  const std::string path = directory + asked.target();
  if (!std::filesystem::is_regular_file(path)) return ScriptServer::status(404);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::string range = asked.header("range");
  const std::string tag = "ETag: \"one\"\r\n";
  if (asked.method() == "HEAD")
    return {fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n", bytes.size(), tag)};
  if (range.empty()) return ScriptServer::ok(bytes, tag);
  const size_t first = std::stoul(range.substr(range.find('=') + 1));
  const std::string last_text = range.substr(range.find('-') + 1);
  const size_t last =
      std::min(last_text.empty() ? bytes.size() - 1 : std::stoul(last_text), bytes.size() - 1);
  const std::string headers =
      fmt::format("{}Content-Range: bytes {}-{}/{}\r\n", tag, first, last, bytes.size());
  return ScriptServer::status(206, bytes.substr(first, last + 1 - first), headers);
}

class ConcurrencyTest : public ::testing::Test {
 protected:
  ConcurrencyTest()
      : made_(testing::make_shards(directory_, kSamples, 70)),
        catalogue_(testing::open_catalogue(stores_, made_.names, directory_.path("index"))) {}

  static constexpr uint64_t kSumOfLabels = kSamples * (kSamples - 1) / 2;
  TemporaryDirectory directory_;
  transfer::Stores stores_{transfer::Settings()};
  testing::MadeShards made_;
  std::shared_ptr<const Catalogue> catalogue_;
};

TEST_F(ConcurrencyTest, AReportMayBeAskedForWhileBatchesAreMade) {
  auto loader = Loader::open(catalogue_, text_recipe(), {0, 0, 4}).take();
  std::atomic<bool> is_over = false;
  std::jthread asker([&] {
    while (!is_over) {
      const Report report = make_report(*loader);
      EXPECT_LE(report.samples, 4 * kSamples);
      EXPECT_TRUE(loader->faults().empty());
    }
  });
  uint64_t sum = 0;
  while (const auto batch = loader->next().take()) sum += sum_of_labels(*batch);
  is_over = true;
  EXPECT_EQ(sum, 4 * kSumOfLabels);
}

TEST_F(ConcurrencyTest, StoppingAtAnyMomentEndsEveryThread) {
  constexpr uint64_t seed = 17;
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 30; ++round) {
    auto loader = Loader::open(catalogue_, text_recipe(), {}).take();
    const uint64_t until = random.below(kSamples);
    std::jthread stopper([&] {
      while (loader->meters().untar.count < until) std::this_thread::yield();
      loader->stop();
    });
    auto batch = loader->next();
    while (batch && *batch) batch = loader->next();
    // Stopped, or through before that.
    if (!batch) EXPECT_EQ(batch.error().code(), Code::kCancelled);
  }
}

TEST_F(ConcurrencyTest, BatchesMayBeLetGoByOtherThreads) {
  auto loader = Loader::open(catalogue_, text_recipe(), {0, 0, 3}).take();
  std::vector<std::jthread> holders;
  std::atomic<uint64_t> sum = 0;
  while (auto batch = loader->next().take())
    holders.emplace_back([&sum, held = std::move(batch)] { sum += sum_of_labels(*held); });
  loader = nullptr;  // before its batches
  holders.clear();
  EXPECT_EQ(sum, 3 * kSumOfLabels);
}

TEST_F(ConcurrencyTest, LoadersShareOneCacheOverHttp) {
  ScriptServer server(
      [&](const ScriptServer::Asked& asked) { return answer_from(directory_.path(""), asked); });
  std::vector<std::string> urls;
  for (const std::string& name : made_.names)
    urls.push_back(server.url("/" + std::filesystem::path(name).filename().string()));
  const auto remote = testing::open_catalogue(stores_, urls, directory_.path("remote-index"));
  Recipe recipe = text_recipe();
  recipe.cache = directory_.path("blocks");
  recipe.cache_bytes = 100 << 20;
  std::vector<std::jthread> loaders;
  for (int i = 0; i < 3; ++i) {
    loaders.emplace_back([&] {
      const auto sum = run(remote, recipe);
      ASSERT_TRUE(sum.has_value()) << sum.error().message();
      EXPECT_EQ(*sum, kSumOfLabels);
    });
  }
  loaders.clear();
  const size_t asked = server.asked().size();
  const auto again = run(remote, recipe);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(server.asked().size(), asked) << "everything was in the cache";
}

TEST_F(ConcurrencyTest, LoadersShareOneKeepAndOneTrace) {
  constexpr uint64_t kImages = 60;
  const auto name = shard::OutputName::parse(directory_.path("images-%04d.tar"));
  shard::ShardWriter writer(*name, {}, {});
  const std::string jpeg = decode::encode_jpeg(decode::make_picture({40, 30}).view());
  for (uint64_t i = 0; i < kImages; ++i) {
    const std::string label = std::to_string(i);
    const shard::NewField fields[] = {{"cls", label}, {"jpg", jpeg}};
    ASSERT_TRUE(writer.add(fmt::format("{:04}", i), fields).has_value());
  }
  const auto written = writer.finish();
  ASSERT_TRUE(written.has_value());
  const auto images =
      testing::open_catalogue(stores_, {written->front().path}, directory_.path("images-index"));
  Recipe recipe = text_recipe();
  recipe.fields[1] = {"image", {"jpg"}, FieldKind::kImage, {}};
  recipe.fields[1].image.size = {20, 20};
  for (const std::string& where : {std::string(), directory_.path("")}) {
    const auto keep = PixelKeep::open({1 << 20, 32, where}).take();
    const auto trace = std::make_shared<Trace>();
    std::vector<std::jthread> loaders;
    for (int i = 0; i < 3; ++i) {
      loaders.emplace_back([&] {
        const auto sum = run(images, recipe, {keep, trace});
        ASSERT_TRUE(sum.has_value()) << sum.error().message();
        EXPECT_EQ(*sum, kImages * (kImages - 1) / 2);
      });
    }
    loaders.clear();
    EXPECT_EQ(keep->images(), kImages);
    EXPECT_NE(trace->json().find("fill slots"), std::string::npos);
  }
}

TEST_F(ConcurrencyTest, SamplesByNumberMayBeAskedForByManyThreads) {
  const auto access = RandomAccess::open(catalogue_, text_recipe()).take();
  std::vector<std::jthread> askers;
  for (uint64_t first = 0; first < 4; ++first) {
    askers.emplace_back([&, first] {
      for (uint64_t number = first; number < kSamples; number += 29) {
        const auto batch = access->get(std::array{number}, 0, [] { return true; });
        ASSERT_TRUE(batch.has_value()) << batch.error().message();
        const Piece piece = (*batch)->columns[1].pieces[0];
        const auto* bytes = reinterpret_cast<const char*>((*batch)->columns[1].memory.memory.get());
        EXPECT_EQ(std::string_view(bytes + piece.offset, piece.size), testing::body_of(number));
      }
    });
  }
}

}  // namespace
}  // namespace millrace::loader
