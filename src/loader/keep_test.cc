// Images that stay: found by the next process, never another's, and whole after any crash.
#include "loader/keep.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/testing/temporary_directory.h"
#include "decode/testing/encode.h"
#include "loader/loader.h"
#include "loader/testing/shards.h"

namespace millrace::loader {
namespace {

constexpr decode::Size kSize{11, 7};
constexpr uint64_t kImageBytes = 11 * 7 * 3;
constexpr uint64_t kRecordBytes = 320;  // head and pixels, to the next multiple of 64

decode::Pixels make_image(uint64_t number) {
  decode::Pixels pixels;
  pixels.resize(kSize, decode::Channels::kRgb);
  for (uint64_t i = 0; i < kImageBytes; ++i) pixels.row(0)[i] = static_cast<uint8_t>(number * 31 + i);
  return pixels;
}

bool is_image(const std::optional<decode::PixelsView>& found, uint64_t number) {
  const decode::Pixels wanted = make_image(number);
  return found && found->size.width == kSize.width && found->size.height == kSize.height &&
         std::equal(found->bytes, found->bytes + kImageBytes, wanted.row(0));
}

class KeepTest : public ::testing::Test {
 protected:
  std::shared_ptr<PixelKeep> open(uint64_t identity = 1, uint64_t most_bytes = 1 << 20) {
    auto keep = PixelKeep::open({most_bytes, 64, directory_.path(""), identity});
    EXPECT_TRUE(keep.has_value()) << keep.error().message();
    return keep.take();
  }
  // Images 0 … count-1, of one shard.
  void fill(uint64_t count) {
    const auto keep = open();
    for (uint64_t i = 0; i < count; ++i) keep->keep({0, i}, 0, make_image(i));
  }
  std::string only_file() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path("")))
      files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return files.front();
  }
  std::string read() const {
    std::ifstream file(only_file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream(only_file(), std::ios::binary | std::ios::trunc) << bytes;
  }

  millrace::testing::TemporaryDirectory directory_;
};

TEST_F(KeepTest, TheNextProcessFindsTheImages) {
  fill(5);
  const auto again = open();
  EXPECT_EQ(again->images(), 5u);
  EXPECT_EQ(again->bytes(), 5 * kImageBytes);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(is_image(again->find({0, i}, 0), i)) << i;
  EXPECT_FALSE(again->find({1, 0}, 0));
  EXPECT_FALSE(again->find({0, 0}, 1));
}

TEST_F(KeepTest, OtherDataFindsNothing) {
  fill(5);
  EXPECT_EQ(open(2)->images(), 0u);
  // Not even where its file has the name of another.
  std::filesystem::rename(directory_.path("0000000000000001-0.pixels"),
                          directory_.path("0000000000000002-0.pixels"));
  EXPECT_EQ(open(2)->images(), 0u);
}

TEST_F(KeepTest, TwoAtOnceHaveFilesOfTheirOwn) {
  const auto one = open();
  const auto other = open();
  one->keep({0, 1}, 0, make_image(1));
  other->keep({0, 2}, 0, make_image(2));
  EXPECT_TRUE(is_image(one->find({0, 1}, 0), 1));
  EXPECT_FALSE(one->find({0, 2}, 0));
  EXPECT_TRUE(is_image(other->find({0, 2}, 0), 2));
}

TEST_F(KeepTest, WhereverItWasCutTheWholeImagesBeforeStay) {
  fill(4);
  const std::string whole = read();
  ASSERT_EQ(whole.size(), 3 * kRecordBytes + 64 + kImageBytes);
  for (size_t size = 0; size < whole.size(); size += 13) {
    write(whole.substr(0, size));
    {
      const auto keep = open();
      // The last record needs its pixels, not what fills it up to the next.
      const uint64_t images = (size + kRecordBytes - 64 - kImageBytes) / kRecordBytes;
      ASSERT_EQ(keep->images(), images) << "cut to " << size;
      for (uint64_t i = 0; i < images; ++i) ASSERT_TRUE(is_image(keep->find({0, i}, 0), i)) << size;
      keep->keep({0, 100}, 0, make_image(100));
    }
    const auto again = open();
    ASSERT_TRUE(is_image(again->find({0, 100}, 0), 100)) << "added behind a cut to " << size;
  }
}

TEST_F(KeepTest, AFlippedBitAnywhereIsNoticedAndTheImageKeptAnew) {
  fill(3);
  const std::string whole = read();
  for (size_t at = kRecordBytes; at < kRecordBytes + 64 + kImageBytes; ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    write(damaged);
    {
      const auto keep = open();
      ASSERT_TRUE(is_image(keep->find({0, 0}, 0), 0)) << at;
      ASSERT_FALSE(keep->find({0, 1}, 0)) << "byte " << at;
      keep->keep({0, 1}, 0, make_image(1));
      ASSERT_TRUE(is_image(keep->find({0, 1}, 0), 1)) << at;
    }
    const auto again = open();
    ASSERT_TRUE(is_image(again->find({0, 1}, 0), 1)) << "byte " << at;
  }
}

TEST_F(KeepTest, WhatDoesNotFitIsNotKept) {
  for (const std::string& where : {std::string(), directory_.path("")}) {
    const auto keep = PixelKeep::open({2 * kRecordBytes, 64, where, 1}).take();
    for (uint64_t i = 0; i < 4; ++i) keep->keep({0, i}, 0, make_image(i));
    EXPECT_EQ(keep->images(), 2u);
    EXPECT_FALSE(keep->find({0, 3}, 0));
  }
  // A smaller cap than when it was written.
  const auto less = open(1, kRecordBytes);
  EXPECT_EQ(less->images(), 1u);
}

TEST_F(KeepTest, ADirectoryThatIsNotThereIsAnErrorThatNamesIt) {
  const auto keep = PixelKeep::open({1 << 20, 64, directory_.path("nowhere"), 1});
  ASSERT_FALSE(keep.has_value());
  EXPECT_NE(keep.error().message().find("nowhere"), std::string::npos);
}

// One epoch: the bytes of all batches' columns, and how much was fetched for them.
struct Epoch {
  std::string pixels;
  uint64_t fetches = 0;
};

class KeptLoadingTest : public ::testing::Test {
 protected:
  KeptLoadingTest() {
    shard::ShardLimits limits;
    limits.max_samples = 25;
    const auto name = shard::OutputName::parse(directory_.path("s-%04d.tar"));
    shard::ShardWriter writer(*name, limits, {});
    for (uint64_t i = 0; i < kImages; ++i) {
      const std::string jpeg =
          decode::encode_jpeg(decode::make_picture({40, 30}, decode::Channels::kRgb, i).view());
      const std::string label = std::to_string(i);
      const shard::NewField fields[] = {{"cls", label}, {"jpg", jpeg}};
      MR_ASSERT(writer.add(fmt::format("{:04}", i), fields).has_value());
    }
    for (const auto& summary : writer.finish().take()) names_.push_back(summary.path);
    catalogue_ = testing::open_catalogue(stores_, names_, directory_.path("index"));
    recipe_.window = 40;
    recipe_.batch = 10;
    recipe_.fields = {{"image", {"jpg"}, FieldKind::kImage, {}}};
    recipe_.fields[0].image.size = {20, 20};
    recipe_.fields[0].image.crop = decode::TransformSpec::Crop::kRandomResized;
  }
  Epoch run(const Recipe& recipe, uint64_t epoch, const std::shared_ptr<PixelKeep>& keep) {
    auto loader = Loader::open(catalogue_, recipe, {epoch}, {keep, nullptr});
    EXPECT_TRUE(loader.has_value()) << loader.error().message();
    Epoch seen;
    while (true) {
      auto batch = (*loader)->next();
      EXPECT_TRUE(batch.has_value()) << batch.error().message();
      if (!batch || !*batch) break;
      const Column& images = (*batch)->columns[0];
      seen.pixels.append(reinterpret_cast<const char*>(images.memory.memory.get()),
                         (*batch)->size * images.item_bytes);
    }
    seen.fetches = (*loader)->meters().fetch.count;
    return seen;
  }

  static constexpr uint64_t kImages = 100;
  millrace::testing::TemporaryDirectory directory_;
  transfer::Stores stores_{transfer::Settings()};
  std::vector<std::string> names_;
  std::shared_ptr<const Catalogue> catalogue_;
  Recipe recipe_;
};

TEST_F(KeptLoadingTest, NothingIsFetchedForSamplesWhoseImagesAreKept) {
  // With a label beside it the bytes are needed all the same: what the images must be.
  Recipe labelled = recipe_;
  labelled.fields.push_back({"label", {"cls"}, FieldKind::kLabel, {}});
  for (const bool bucketed : {false, true}) {
    for (const uint64_t memory : {uint64_t{2} << 30, uint64_t{1} << 10}) {
      recipe_.memory = labelled.memory = memory;
      recipe_.bucket_by = labelled.bucket_by =
          bucketed ? std::vector<std::string>{"jpg"} : std::vector<std::string>();
      const auto keep = PixelKeep::open({1 << 20, 64, "", 0}).take();
      EXPECT_GT(run(recipe_, 0, keep).fetches, 0u);
      EXPECT_EQ(keep->images(), kImages);
      const Epoch kept = run(recipe_, 1, keep);
      const Epoch wanted = run(labelled, 1, keep);
      EXPECT_EQ(kept.fetches, 0u);
      EXPECT_GT(wanted.fetches, 0u);
      EXPECT_TRUE(kept.pixels == wanted.pixels);
    }
  }
}

TEST_F(KeptLoadingTest, WhatWasNotKeptIsStillFetched) {
  Recipe labelled = recipe_;
  labelled.fields.push_back({"label", {"cls"}, FieldKind::kLabel, {}});
  recipe_.memory = labelled.memory = 1 << 10;  // every sample by itself
  const auto keep = PixelKeep::open({kImages / 4 * 40 * 30 * 3, 64, "", 0}).take();
  run(recipe_, 0, keep);
  EXPECT_EQ(keep->images(), kImages / 4);
  const Epoch partly = run(recipe_, 1, keep);
  EXPECT_EQ(partly.fetches, kImages - kImages / 4);
  EXPECT_TRUE(partly.pixels == run(labelled, 1, keep).pixels);
}

TEST_F(KeptLoadingTest, AnImageDamagedOnTheDriveIsFetchedAndDecodedAgain) {
  const std::string where = directory_.path("");
  const uint64_t identity = pixels_identity(*catalogue_, recipe_, 64);
  recipe_.memory = 1 << 10;
  Epoch wanted;
  {
    const auto keep = PixelKeep::open({1 << 20, 64, where, identity}).take();
    run(recipe_, 0, keep);
    wanted = run(recipe_, 1, keep);
  }
  const std::string path = directory_.path(fmt::format("{:016x}-0.pixels", identity));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(64 + 1000);
  file << "damaged";
  file.close();
  const auto keep = PixelKeep::open({1 << 20, 64, where, identity}).take();
  const Epoch again = run(recipe_, 1, keep);
  EXPECT_EQ(again.fetches, 1u);
  EXPECT_TRUE(again.pixels == wanted.pixels);
}

}  // namespace
}  // namespace millrace::loader
