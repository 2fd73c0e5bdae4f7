// Tests the defaults of images when few options are given.
#include "decode/image_description.h"

#include <gtest/gtest.h>

#include <array>

namespace millrace::decode {
namespace {

using Spec = decode::TransformSpec;

Result<Spec> described(std::initializer_list<std::pair<std::string_view, std::string_view>> options) {
  ImageDescription description;
  for (const auto& [name, value] : options) MR_TRY(description.set(name, value));
  return description.finish();
}

TEST(ImageDescriptionTest, AnImageOfWhichNothingIsSaidKeepsItsSize) {
  const Spec spec = described({}).take();
  EXPECT_EQ(spec.crop, Spec::Crop::kNone);
  EXPECT_EQ(spec.size, decode::Size{});
  EXPECT_EQ(spec.type, Spec::Type::kUint8);
  EXPECT_EQ(spec.layout, Spec::Layout::kHwc);
}

TEST(ImageDescriptionTest, ASizeAloneIsTheMiddleOfTheResizedImage) {
  const Spec spec = described({{"size", "224"}}).take();
  EXPECT_EQ(spec.crop, Spec::Crop::kCenter);
  EXPECT_EQ(spec.resize, 224U);
  EXPECT_EQ(spec.size, (decode::Size{224, 224}));
  EXPECT_EQ(described({{"size", "320x200"}})->resize, 200U);
  EXPECT_EQ(described({{"size", "224"}, {"resize", "256"}})->resize, 256U);
}

TEST(ImageDescriptionTest, AnotherCropIsNotResizedFirst) {
  const Spec spec = described({{"crop", "random"}, {"size", "32"}}).take();
  EXPECT_EQ(spec.crop, Spec::Crop::kRandom);
  EXPECT_EQ(spec.resize, 0U);
  EXPECT_EQ(described({{"crop", "none"}, {"size", "32"}})->resize, 0U);
}

TEST(ImageDescriptionTest, NormalisingMakesFloatsUnlessATypeIsGiven) {
  EXPECT_EQ(described({{"normalize", "imagenet"}})->type, Spec::Type::kFloat32);
  EXPECT_EQ(described({{"dtype", "float16"}, {"normalize", "half"}})->type, Spec::Type::kFloat16);
  EXPECT_EQ(described({{"normalize", "none"}})->type, Spec::Type::kFloat32);
  EXPECT_EQ(described({{"normalize", "half"}, {"channels", "gray"}})->mean[0], 0.5F);
}

TEST(ImageDescriptionTest, NormalisationMustFitTheChannels) {
  EXPECT_FALSE(described({{"normalize", "imagenet"}, {"channels", "gray"}}));
  ImageDescription description;
  description.normalize({0.5F, 0.5F}, {0.5F});
  EXPECT_FALSE(description.finish());
  description.normalize({0.5F, 0.25F, 0.125F}, {0.5F});
  EXPECT_EQ(description.finish()->mean[1], 0.25F);
  EXPECT_EQ(description.finish()->deviation[2], 0.5F);
}

TEST(ImageDescriptionTest, OpacityIsNotNormalisedByTheColours) {
  const Spec spec = described({{"normalize", "imagenet"}, {"channels", "rgba"}}).take();
  EXPECT_EQ(spec.mean, (std::array<float, 4>{0.485F, 0.456F, 0.406F, 0}));
  EXPECT_EQ(spec.deviation, (std::array<float, 4>{0.229F, 0.224F, 0.225F, 1}));
}

TEST(ImageDescriptionTest, ErrorsBeginWithTheName) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<std::string_view, std::string_view>>{{"size", "0"},
                                                                            {"size", "1x2x3"},
                                                                            {"size", "x"},
                                                                            {"resize", "-1"},
                                                                            {"crop", "round"},
                                                                            {"layout", "WHC"},
                                                                            {"dtype", "f4"},
                                                                            {"channels", "cmyk"},
                                                                            {"normalize", "me"},
                                                                            {"flip", "no"},
                                                                            {"colour", "red"}}) {
    const auto spec = described({{name, value}});
    ASSERT_FALSE(spec) << name << "=" << value;
    EXPECT_TRUE(spec.error().message().starts_with(name)) << spec.error().message();
  }
}

}  // namespace
}  // namespace millrace::decode
