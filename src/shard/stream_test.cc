// Stages: which samples pass, in what order, under what names.
#include "shard/stream.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing/temporary_directory.h"
#include "shard/writer.h"

namespace millrace::shard {
namespace {

using Texts = std::vector<std::string>;

class StreamTest : public ::testing::Test {
 protected:
  // A shard of samples KEY0, KEY1, … with the fields jpg and cls.
  std::unique_ptr<SampleStream> samples(const std::string& key, int count) {
    const std::string path = directory_.path(key + ".tar");
    auto file = ShardFile::create(path, {});
    for (int i = 0; i < count; ++i) {
      const std::string text = fmt::format("picture {}{}", key, i);
      const NewField fields[] = {{"cls", "5"}, {"jpg", text}};
      EXPECT_TRUE((*file)->add(fmt::format("{}{}", key, i), fields));
    }
    EXPECT_TRUE((*file)->finish());
    return std::make_unique<InputStream>(Texts{path}, InputOptions());
  }

  static Texts keys(SampleStream& stream) {
    Texts found;
    while (true) {
      auto sample = stream.next();
      EXPECT_TRUE(sample) << (sample ? "" : sample.error().message());
      if (!sample || *sample == nullptr) return found;
      found.emplace_back((*sample)->key);
    }
  }

  millrace::testing::TemporaryDirectory directory_;
};

TEST_F(StreamTest, SlicesTakeWhatTheySay) {
  const auto sliced = [&](const char* text) {
    SliceStream stream(samples("s", 7), *parse_slice(text));
    return keys(stream);
  };
  EXPECT_EQ(sliced("2:4"), (Texts{"s2", "s3"}));
  EXPECT_EQ(sliced("::3"), (Texts{"s0", "s3", "s6"}));
  EXPECT_EQ(sliced("1::4"), (Texts{"s1", "s5"}));
  EXPECT_EQ(sliced("5:"), (Texts{"s5", "s6"}));
  EXPECT_EQ(sliced("9:12"), Texts());
}

TEST_F(StreamTest, BadSlicesAreRefused) {
  for (const char* text : {"", "3", "a:b", "1:2:0", "1:2:3:4", "-1:3"})
    EXPECT_FALSE(parse_slice(text)) << text;
}

TEST_F(StreamTest, MixingKeepsProportionsExactly) {
  std::vector<MixStream::Part> parts;
  parts.push_back({samples("a", 6), 3});
  parts.push_back({samples("b", 2), 1});
  MixStream mix(std::move(parts));
  const Texts order = keys(mix);
  ASSERT_EQ(order.size(), 8U);
  for (size_t four = 0; four < 8; four += 4) {
    EXPECT_EQ(std::count_if(order.begin() + four, order.begin() + four + 4,
                            [](const auto& key) { return key[0] == 'a'; }),
              3);
  }
}

TEST_F(StreamTest, AnEmptyPartOfAMixCanStillBeAsked) {
  auto part = samples("a", 1);
  auto* input = static_cast<InputStream*>(part.get());
  std::vector<MixStream::Part> parts;
  parts.push_back({std::move(part), 1});
  parts.push_back({samples("b", 2), 1});
  MixStream mix(std::move(parts));
  EXPECT_EQ(keys(mix).size(), 3U);
  EXPECT_EQ(input->loose_members(), 0U);
}

TEST_F(StreamTest, MixingGoesOnWhenOnePartIsEmpty) {
  std::vector<MixStream::Part> parts;
  parts.push_back({samples("a", 1), 1});
  parts.push_back({samples("b", 3), 1});
  MixStream mix(std::move(parts));
  EXPECT_EQ(keys(mix), (Texts{"a0", "b0", "b1", "b2"}));
}

TEST_F(StreamTest, ShufflingPermutesAndDependsOnTheSeedOnly) {
  const auto shuffled = [&](uint64_t seed, uint64_t bytes) {
    ShuffleStream stream(samples("s", 50), {10, bytes, seed, tar::KeyRule::kFirstDot});
    return keys(stream);
  };
  const Texts once = shuffled(1, 1 << 20);
  EXPECT_EQ(once, shuffled(1, 1 << 20));
  EXPECT_NE(once, shuffled(2, 1 << 20));
  Texts in_order = once;
  std::ranges::sort(in_order);
  EXPECT_EQ(std::ranges::unique(in_order).begin(), in_order.end());
  EXPECT_EQ(in_order.size(), 50U);
  // A buffer of one byte holds one sample: the order stays.
  Texts untouched = shuffled(1, 1);
  EXPECT_EQ(untouched[0], "s0");
  EXPECT_EQ(untouched[49], "s49");
}

TEST_F(StreamTest, SelectingKeepsAndRenamesFields) {
  SelectStream stream(samples("s", 2), *parse_field_choices("jpeg;jpg=image"));
  const auto sample = stream.next();
  ASSERT_TRUE(sample);
  ASSERT_EQ((*sample)->fields.size(), 1U);
  EXPECT_EQ((*sample)->fields[0].field, "image");
  EXPECT_EQ((*sample)->fields[0].name, "s0.image");
  EXPECT_EQ((*sample)->fields[0].bytes, "picture s0");
}

TEST_F(StreamTest, SelectingAFieldThatIsNotThereNamesTheSample) {
  SelectStream stream(samples("s", 2), *parse_field_choices("png;gif cls"));
  const auto sample = stream.next();
  ASSERT_FALSE(sample);
  EXPECT_EQ(sample.error().message(), "sample \"s0\" has no field png or gif; it has cls, jpg");
}

TEST_F(StreamTest, BadFieldChoicesAreRefused) {
  for (const char* text : {"", "  ", "a=", "=b", "a;;b", "a=b/c"})
    EXPECT_FALSE(parse_field_choices(text)) << text;
}

TEST_F(StreamTest, RekeyingCountsThroughTheStream) {
  RekeyStream stream(samples("s", 3), *OutputName::parse("t/%03d"));
  EXPECT_EQ(keys(stream), (Texts{"t/000", "t/001", "t/002"}));
}

}  // namespace
}  // namespace millrace::shard
