// Tests which specifications are accepted, and the messages for those that are not.
#include "loader/spec.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "decode/image_description.h"

namespace millrace::loader {
namespace {

TEST(SpecTest, ReadsKindsFieldsAndOptions) {
  const auto fields = parse_fields(
      "image:jpg;PNG:size=224,crop=random_resized,flip,normalize=imagenet,layout=CHW  label:cls key");
  ASSERT_TRUE(fields.has_value()) << fields.error().message();
  ASSERT_EQ(fields->size(), 3u);
  const FieldSpec& image = fields->front();
  EXPECT_EQ(image.any_of, (std::vector<std::string>{"jpg", "png"}));
  EXPECT_EQ(image.name, "jpg");
  EXPECT_EQ(image.image.size, (decode::Size{224, 224}));
  EXPECT_EQ(image.image.crop, decode::TransformSpec::Crop::kRandomResized);
  EXPECT_TRUE(image.image.flip);
  EXPECT_EQ(image.image.type, decode::TransformSpec::Type::kFloat32);
  EXPECT_EQ(image.image.layout, decode::TransformSpec::Layout::kChw);
  EXPECT_EQ((*fields)[1].kind, FieldKind::kLabel);
  EXPECT_EQ((*fields)[2].kind, FieldKind::kKey);
}

TEST(SpecTest, SizesMayDiffer) {
  const auto fields = parse_fields("image:jpg:size=320x200,crop=random");
  ASSERT_TRUE(fields.has_value()) << fields.error().message();
  EXPECT_EQ(fields->front().image.size, (decode::Size{320, 200}));
}

// The words that Dataset.image(size=…) of Python hands over: tests/python/test_image_options.py.
TEST(SpecTest, MeansWhatPythonMeans) {
  for (const auto& [spec, words] : std::map<std::string, std::map<std::string, std::string>>{
           {"image:jpg", {}},
           {"image:jpg:size=224", {{"size", "224x224"}}},
           {"image:jpg:size=320x200,crop=none,flip", {{"size", "320x200"}, {"crop", "none"}, {"flip", ""}}},
           {"image:jpg:size=224,normalize=imagenet", {{"size", "224x224"}, {"normalize", "imagenet"}}}}) {
    const auto fields = parse_fields(spec);
    ASSERT_TRUE(fields.has_value()) << fields.error().message();
    decode::ImageDescription image;
    for (const auto& [name, value] : words) ASSERT_TRUE(image.set(name, value).has_value());
    ASSERT_TRUE(image.set("layout", "HWC").has_value());
    ASSERT_TRUE(image.set("channels", "rgb").has_value());
    EXPECT_EQ(fields->front().image, image.finish().take()) << spec;
  }
}

TEST(SpecTest, SaysWhatItDoesNotKnow) {
  for (const char* bad : {"", "picture:jpg", "image:jpg:size=0", "image:jpg:size=12y", "image:jpg:size=1x2x3",
                          "image:jpg:crop=round", "image:jpg:colour=red", "label:cls:size=3", "image:",
                          "bytes", "label:cls label:cls", "image:jpg:normalize=me", "image:jpg:flip=no"}) {
    EXPECT_FALSE(parse_fields(bad).has_value()) << bad;
  }
  const auto wrong = parse_fields("picture:jpg");
  EXPECT_NE(wrong.error().message().find("picture"), std::string::npos);
  EXPECT_NE(wrong.error().hint().find("image"), std::string::npos);
}

}  // namespace
}  // namespace millrace::loader
