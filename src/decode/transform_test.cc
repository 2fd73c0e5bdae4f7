// Specs that cannot be, keys, and the ways to the same result. That results are torchvision's is tested in
// tests/decode.
#include "decode/transform.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "decode/testing/encode.h"

namespace millrace::decode {
namespace {

using Spec = TransformSpec;

Spec make_spec(Spec::Crop crop, Size size) {
  Spec spec;
  spec.crop = crop;
  spec.size = size;
  return spec;
}

std::vector<std::byte> run(const Spec& spec, std::string_view encoded, uint64_t key, Workspace& workspace) {
  const Transform transform = Transform::make(spec).take();
  std::vector<std::byte> out(transform.output_bytes(), std::byte{0xaa});
  transform.run(encoded, key, workspace, out).take();
  return out;
}

TEST(TransformTest, ImpossibleSpecsAreErrorsThatSayWhy) {
  const std::vector<std::pair<std::string, std::function<void(Spec&)>>> wrong{
      {"a crop needs a size", [](Spec& spec) { spec.size = {}; }},
      {"size 5 x 0 is empty", [](Spec& spec) { spec.size = {5, 0}; }},
      {"no side may exceed", [](Spec& spec) { spec.size = {70'000, 5}; }},
      {"exceeds the limit", [](Spec& spec) { spec.size = {60'000, 60'000}; }},
      {"it resizes itself", [](Spec& spec) { spec.resize = 256; }},
      {"give one of them", [](Spec& spec) { spec.crop = Spec::Crop::kNone, spec.resize = 256; }},
      {"scale 0 to 1", [](Spec& spec) { spec.scale_from = 0; }},
      {"scale 2 to 1", [](Spec& spec) { spec.scale_from = 2; }},
      {"ratio nan", [](Spec& spec) { spec.ratio_from = std::nan(""); }},
      {"need a float type", [](Spec& spec) { spec.mean[0] = 0.5F; }},
      {"channel 1", [](Spec& spec) { spec.type = Spec::Type::kFloat32, spec.deviation[1] = 0; }},
  };
  for (const auto& [said, change] : wrong) {
    Spec spec = make_spec(Spec::Crop::kRandomResized, {224, 224});
    change(spec);
    const auto made = Transform::make(spec);
    ASSERT_FALSE(made) << said;
    EXPECT_NE(made.error().message().find(said), std::string::npos) << made.error().message();
  }
  EXPECT_TRUE(Transform::make(make_spec(Spec::Crop::kRandomResized, {224, 224})));
}

TEST(TransformTest, OutputBytesFollowSizeChannelsAndType) {
  Spec spec = make_spec(Spec::Crop::kCenter, {20, 10});
  EXPECT_EQ(Transform::make(spec)->output_bytes(), 20U * 10 * 3);
  spec.type = Spec::Type::kFloat32;
  EXPECT_EQ(Transform::make(spec)->output_bytes(), 20U * 10 * 3 * 4);
  spec.channels = Channels::kGray;
  spec.type = Spec::Type::kFloat16;
  EXPECT_EQ(Transform::make(spec)->output_bytes(), 20U * 10 * 2);
  EXPECT_EQ(Transform::make(Spec{})->output_bytes(), 0U);
}

TEST(TransformTest, TheSameKeyGivesTheSameBytesAndOthersOthers) {
  const std::string jpeg = encode_jpeg(make_picture({150, 100}).view());
  Spec spec = make_spec(Spec::Crop::kRandomResized, {32, 32});
  spec.flip = true;
  Workspace workspace;
  Workspace other;
  std::set<std::vector<std::byte>> seen;
  for (uint64_t key = 0; key < 50; ++key) {
    const auto result = run(spec, jpeg, key, workspace);
    EXPECT_EQ(result, run(spec, jpeg, key, other));
    seen.insert(result);
  }
  EXPECT_EQ(seen.size(), 50U);
}

// A change here changes every augmentation of a run that is resumed: it must not happen by accident.
TEST(TransformTest, KeysMeanTheSameCropForever) {
  Spec spec = make_spec(Spec::Crop::kRandomResized, {224, 224});
  spec.flip = true;
  const Transform transform = Transform::make(spec).take();
  EXPECT_EQ(*transform.place({500, 375}, 1), (Placement{{50, 5, 371, 367}, false}));
  EXPECT_EQ(*transform.place({500, 375}, 2), (Placement{{230, 38, 193, 169}, false}));
  EXPECT_EQ(*transform.place({500, 375}, 3), (Placement{{64, 5, 381, 352}, true}));
}

TEST(TransformTest, PixelsThatWereKeptGiveWhatTheBytesGive) {
  const std::string jpeg = encode_jpeg(make_picture({211, 160}).view());
  Workspace workspace;
  Pixels kept;
  ASSERT_TRUE(workspace.decoder.decode(jpeg, {}, kept));
  for (const auto crop :
       {Spec::Crop::kNone, Spec::Crop::kCenter, Spec::Crop::kRandom, Spec::Crop::kRandomResized}) {
    for (const uint32_t resize : {0U, 130U}) {
      Spec spec = make_spec(crop, {96, 80});
      spec.flip = true;
      if (crop == Spec::Crop::kCenter || crop == Spec::Crop::kRandom) spec.resize = resize;
      const Transform transform = Transform::make(spec).take();
      for (uint64_t key = 0; key < 20; ++key) {
        std::vector<std::byte> out(transform.output_bytes());
        ASSERT_TRUE(transform.run(kept.view(), key, workspace, out));
        ASSERT_EQ(out, run(spec, jpeg, key, workspace));
      }
    }
  }
}

TEST(TransformTest, EveryTypeAndLayoutIsTheSameWithAndWithoutWideInstructions) {
  const std::string jpeg = encode_jpeg(make_picture({90, 70}).view());
  Workspace wide;
  Workspace plain;
  plain.scratch = ResampleScratch(Instructions::kPlain);
  for (const auto type : {Spec::Type::kUint8, Spec::Type::kFloat32, Spec::Type::kFloat16}) {
    for (const auto layout : {Spec::Layout::kHwc, Spec::Layout::kChw}) {
      for (const uint32_t width : {1U, 7U, 8U, 9U, 64U, 77U}) {
        Spec spec = make_spec(Spec::Crop::kRandomResized, {width, 13});
        spec.type = type;
        spec.layout = layout;
        spec.flip = true;
        if (type != Spec::Type::kUint8)
          spec.mean = {0.5F, 0.25F, 0.125F, 0}, spec.deviation = {0.2F, 0.3F, 0.4F, 1};
        for (uint64_t key = 0; key < 8; ++key)
          ASSERT_EQ(run(spec, jpeg, key, wide), run(spec, jpeg, key, plain));
      }
    }
  }
}

TEST(TransformTest, LayoutsHoldTheSameValues) {
  const std::string png = encode_png(make_picture({40, 30}).view());
  Workspace workspace;
  Spec spec = make_spec(Spec::Crop::kCenter, {19, 17});
  const auto rows = run(spec, png, 1, workspace);
  spec.layout = Spec::Layout::kChw;
  const auto planes = run(spec, png, 1, workspace);
  for (size_t y = 0; y < 17; ++y) {
    for (size_t x = 0; x < 19; ++x) {
      for (size_t c = 0; c < 3; ++c) ASSERT_EQ(rows[(y * 19 + x) * 3 + c], planes[(c * 17 + y) * 19 + x]);
    }
  }
}

TEST(TransformTest, ACenterCropLargerThanTheImageHasABlackBorder) {
  const Pixels picture = make_picture({3, 2});
  Workspace workspace;
  const auto out = run(make_spec(Spec::Crop::kCenter, {6, 5}), encode_png(picture.view()), 1, workspace);
  for (size_t y = 0; y < 5; ++y) {
    for (size_t x = 0; x < 6; ++x) {
      const bool inside = x >= 1 && x < 4 && y >= 1 && y < 3;
      const uint8_t expected = inside ? picture.row(static_cast<uint32_t>(y) - 1)[(x - 1) * 3] : 0;
      EXPECT_EQ(std::to_integer<uint8_t>(out[(y * 6 + x) * 3]), expected) << x << "," << y;
    }
  }
}

TEST(TransformTest, RaggedResultsAreAsLargeAsTheImage) {
  const Pixels picture = make_picture({31, 22});
  Workspace workspace;
  const Transform transform = Transform::make(Spec{}).take();
  const auto image = transform.run_ragged(encode_png(picture.view()), 1, workspace);
  ASSERT_TRUE(image);
  EXPECT_EQ(image->size, (Size{31, 22}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(image->bytes.data()), image->bytes.size()),
            bytes_of(picture.view()));
}

TEST(TransformTest, DamagedBytesLeaveAWorkspaceThatStillWorks) {
  const std::string jpeg = encode_jpeg(make_picture({90, 70}).view());
  const Spec spec = make_spec(Spec::Crop::kNone, {32, 32});
  Workspace workspace;
  const auto expected = run(spec, jpeg, 1, workspace);
  const Transform transform = Transform::make(spec).take();
  std::vector<std::byte> out(transform.output_bytes());
  for (size_t length = 0; length + 2 < jpeg.size(); length += 31) {
    ASSERT_FALSE(transform.run(jpeg.substr(0, length), 1, workspace, out));
  }
  EXPECT_EQ(run(spec, jpeg, 1, workspace), expected);
}

TEST(TransformTest, AStripOfOnePixelCannotBeBlownUpWithoutBound) {
  const std::string png = encode_png(make_picture({1, 4000}).view());
  Spec spec;
  spec.resize = 60'000;
  Workspace workspace;
  const auto done = Transform::make(spec)->run_ragged(png, 1, workspace);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), Code::kTooLarge);
}

TEST(TransformTest, BoundedImagesKeepTheirShape) {
  Workspace workspace;
  Pixels pixels;
  const std::string jpeg = encode_jpeg(make_picture({400, 100}).view());
  const std::vector<std::pair<uint32_t, Size>> expected{
      {1000, {400, 100}}, {400, {400, 100}}, {399, {399, 100}}, {100, {100, 25}}, {7, {7, 2}}, {1, {1, 1}}};
  for (const auto& [side, size] : expected) {
    ASSERT_TRUE(decode_bounded(jpeg, side, workspace, pixels));
    EXPECT_EQ(pixels.size(), size) << side;
  }
  EXPECT_FALSE(decode_bounded(jpeg, 0, workspace, pixels));
}

}  // namespace
}  // namespace millrace::decode
