// Whole and partial decodes, damage of every kind, and limits. That pixels are PIL's is tested in
// tests/decode.
#include "decode/image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "decode/testing/encode.h"

namespace millrace::decode {
namespace {

struct Example {
  std::string name;
  std::string bytes;
};

std::vector<Example> make_examples(Size size) {
  const Pixels rgb = make_picture(size);
  const Pixels gray = make_picture(size, Channels::kGray);
  const Pixels inks = make_picture(size, Channels::kRgba);
  std::vector<Example> examples;
  for (const int across : {1, 2, 4}) {
    for (const int down : {1, 2}) {
      const std::string name = fmt::format("JPEG {}x{}", across, down);
      examples.push_back({name, encode_jpeg(rgb.view(), {.across = across, .down = down})});
      examples.push_back({name + " progressive",
                          encode_jpeg(rgb.view(), {.across = across, .down = down, .progressive = true})});
      examples.push_back({name + " restarts",
                          encode_jpeg(rgb.view(), {.across = across, .down = down, .restart_blocks = 3})});
    }
  }
  examples.push_back({"JPEG gray", encode_jpeg(gray.view())});
  examples.push_back({"JPEG CMYK", encode_jpeg(inks.view())});
  examples.push_back({"PNG", encode_png(rgb.view())});
  examples.push_back({"PNG gray", encode_png(gray.view())});
  examples.push_back({"PNG alpha", encode_png(inks.view())});
  examples.push_back({"WebP lossy", encode_webp(rgb.view(), Loss::kSome)});
  examples.push_back({"WebP lossless", encode_webp(rgb.view(), Loss::kNone)});
  return examples;
}

Pixels decode_whole(std::string_view bytes, Channels channels = Channels::kRgb) {
  ImageDecoder decoder;
  Pixels pixels;
  DecodeOptions options;
  options.channels = channels;
  decoder.decode(bytes, options, pixels).take();
  return pixels;
}

TEST(ImageTest, FindsTheFormatByTheFirstBytes) {
  const Pixels picture = make_picture({9, 7});
  EXPECT_EQ(find_format(encode_jpeg(picture.view())), Format::kJpeg);
  EXPECT_EQ(find_format(encode_png(picture.view())), Format::kPng);
  EXPECT_EQ(find_format(encode_webp(picture.view(), Loss::kSome)), Format::kWebp);
  EXPECT_EQ(find_format("GIF89a"), std::nullopt);
  EXPECT_EQ(find_format(""), std::nullopt);
}

TEST(ImageTest, ReadsTheSizeWithoutDecoding) {
  for (const Size size : {Size{1, 1}, Size{640, 3}, Size{33, 700}}) {
    for (const Example& example : make_examples(size)) {
      const auto found = read_size(example.bytes);
      ASSERT_TRUE(found) << example.name << found.error().message();
      EXPECT_EQ(*found, size) << example.name;
    }
  }
}

TEST(ImageTest, LosslessFormatsKeepEveryPixel) {
  const Pixels picture = make_picture({61, 43});
  const std::string expected = bytes_of(picture.view());
  EXPECT_EQ(bytes_of(decode_whole(encode_png(picture.view())).view()), expected);
  EXPECT_EQ(bytes_of(decode_whole(encode_png(picture.view(), SPNG_INTERLACE_ADAM7)).view()), expected);
  EXPECT_EQ(bytes_of(decode_whole(encode_webp(picture.view(), Loss::kNone)).view()), expected);
}

TEST(ImageTest, RestartMarkersChangeNoPixel) {
  const Pixels picture = make_picture({200, 120});
  const std::string plain = encode_jpeg(picture.view());
  for (const int blocks : {1, 2, 7}) {
    const std::string restarting = encode_jpeg(picture.view(), {.restart_blocks = blocks});
    ASSERT_GT(restarting.size(), plain.size());
    EXPECT_EQ(bytes_of(decode_whole(restarting).view()), bytes_of(decode_whole(plain).view()));
  }
}

TEST(ImageTest, ARegionHasThePixelsOfTheWhole) {
  const Size size{157, 131};
  Random random(11);
  ImageDecoder decoder;
  Pixels part;
  for (const Example& example : make_examples(size)) {
    for (const Channels channels : {Channels::kGray, Channels::kRgb, Channels::kRgba}) {
      const Pixels all = decode_whole(example.bytes, channels);
      for (int i = 0; i < 60; ++i) {
        Rect region;
        region.x = static_cast<uint32_t>(random.below(size.width));
        region.y = static_cast<uint32_t>(random.below(size.height));
        region.width = 1 + static_cast<uint32_t>(random.below(size.width - region.x));
        region.height = 1 + static_cast<uint32_t>(random.below(size.height - region.y));
        const DecodeOptions options{.channels = channels, .region = region};
        ASSERT_TRUE(decoder.decode(example.bytes, options, part)) << example.name;
        ASSERT_EQ(bytes_of(part.view()), bytes_of(all.view().part(region)))
            << example.name << " " << region.x << "," << region.y << " " << region.width << "x"
            << region.height;
      }
    }
  }
}

TEST(ImageTest, EveryCutIsAnError) {
  ImageDecoder decoder;
  Pixels pixels;
  for (const Example& example : make_examples({120, 90})) {
    const Pixels all = decode_whole(example.bytes);
    for (size_t length = 0; length + 2 < example.bytes.size(); length += 97) {
      const auto done = decoder.decode(example.bytes.substr(0, length), {}, pixels);
      ASSERT_FALSE(done) << example.name << " cut to " << length << " of " << example.bytes.size();
      ASSERT_FALSE(done.error().message().empty());
    }
    ASSERT_TRUE(decoder.decode(example.bytes, {}, pixels)) << example.name << ": the decoder did not recover";
    EXPECT_EQ(bytes_of(pixels.view()), bytes_of(all.view())) << example.name;
  }
}

TEST(ImageTest, ACutJpegIsCalledTruncated) {
  for (const bool progressive : {false, true}) {
    const std::string whole_bytes =
        encode_jpeg(make_picture({300, 200}).view(), {.progressive = progressive});
    ImageDecoder decoder;
    Pixels pixels;
    const auto done = decoder.decode(whole_bytes.substr(0, whole_bytes.size() * 3 / 4), {}, pixels);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), Code::kTruncated) << done.error().message();
  }
}

TEST(ImageTest, AJpegThatLacksOnlyItsEndMarkerIsWhole) {
  const std::string bytes = encode_jpeg(make_picture({64, 48}).view());
  const Pixels all = decode_whole(bytes);
  EXPECT_EQ(bytes_of(decode_whole(bytes.substr(0, bytes.size() - 2)).view()), bytes_of(all.view()));
}

TEST(ImageTest, ARegionNeedsOnlyTheBytesUpToItsLastRow) {
  const std::string bytes = encode_jpeg(make_picture({200, 200}).view());
  ImageDecoder decoder;
  Pixels pixels;
  const DecodeOptions top{.region = Rect{0, 0, 200, 20}};
  EXPECT_TRUE(decoder.decode(bytes.substr(0, bytes.size() / 2), top, pixels));
}

TEST(ImageTest, AnImageWithoutTablesDoesNotUseThoseOfTheImageBefore) {
  const std::string good = encode_jpeg(make_picture({64, 48}).view());
  std::string bare = good;
  for (size_t table = bare.find("\xff\xdb"); table != bare.npos; table = bare.find("\xff\xdb")) {
    bare.erase(table, 2 + 67);
  }
  ASSERT_LT(bare.size(), good.size());
  ImageDecoder decoder;
  Pixels pixels;
  ASSERT_TRUE(decoder.decode(good, {}, pixels));
  const auto done = decoder.decode(bare, {}, pixels);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), Code::kCorrupt) << done.error().message();
}

TEST(ImageTest, AProgressiveImageWithoutItsFineDetailIsTheSameInParts) {
  const Size size{120, 90};
  std::string bytes = encode_jpeg(make_picture(size).view(), {.progressive = true});
  // Only the first scan, the coarse one, is kept.
  const size_t first = bytes.find("\xff\xda");
  const size_t second = bytes.find("\xff\xc4", first);
  ASSERT_NE(second, bytes.npos);
  bytes = bytes.substr(0, second) + "\xff\xd9";
  const Pixels all = decode_whole(bytes);
  ImageDecoder decoder;
  Pixels part;
  for (const Rect region : {Rect{40, 30, 20, 20}, Rect{1, 50, 100, 3}, Rect{0, 0, 8, 90}}) {
    ASSERT_TRUE(decoder.decode(bytes, {.region = region}, part));
    EXPECT_EQ(bytes_of(part.view()), bytes_of(all.view().part(region)));
  }
}

TEST(ImageTest, DamageNeverCrashesAndNeverHangs) {
  Random random(5);
  ImageDecoder decoder;
  Pixels pixels;
  const DecodeOptions options{.most_pixels = 1 << 20};
  int refused = 0;
  for (const Example& example : make_examples({80, 60})) {
    for (int i = 0; i < 150; ++i) {
      std::string damaged = example.bytes;
      const uint64_t changes = 1 + random.below(6);
      for (uint64_t change = 0; change < changes; ++change) {
        damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
      }
      if (!decoder.decode(damaged, options, pixels)) ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(ImageTest, AHeaderThatClaimsTooManyPixelsIsRefusedBeforeMemoryIsTaken) {
  std::string jpeg = encode_jpeg(make_picture({64, 48}).view());
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  std::string png = encode_png(make_picture({64, 48}).view());
  png.replace(16, 8, std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8));
  for (const std::string& bytes : {jpeg, png}) {
    ImageDecoder decoder;
    Pixels pixels;
    const auto done = decoder.decode(bytes, {}, pixels);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), Code::kTooLarge) << done.error().message();
    EXPECT_EQ(pixels.capacity(), 0U);
  }
}

TEST(ImageTest, AHeaderThatClaimsMoreThanItsBytesCanHoldIsRefusedBeforeMemoryIsTaken) {
  std::string baseline = encode_jpeg(make_picture({64, 48}).view());
  baseline.replace(baseline.find("\xff\xc0") + 5, 4, "\x30\x30\x30\x30");
  std::string progressive = encode_jpeg(make_picture({64, 48}).view(), {.progressive = true});
  progressive.replace(progressive.find("\xff\xc2") + 5, 4, "\x30\x30\x30\x30");
  for (const std::string& bytes : {baseline, progressive}) {
    ImageDecoder decoder;
    Pixels pixels;
    const auto done = decoder.decode(bytes, {}, pixels);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), Code::kTruncated) << done.error().message();
    EXPECT_EQ(pixels.capacity(), 0U);
  }
}

TEST(ImageTest, FlatImagesAreNotTakenForCutOnes) {
  Pixels flat;
  flat.resize({6000, 4000}, Channels::kGray);
  std::memset(flat.row(0), 7, flat.byte_count());
  const std::string expected = bytes_of(flat.view());
  const std::string jpeg = encode_jpeg(flat.view(), {.progressive = true});
  const std::string png = encode_png(flat.view());
  EXPECT_EQ(decode_whole(jpeg, Channels::kGray).size(), flat.size());
  EXPECT_EQ(bytes_of(decode_whole(png, Channels::kGray).view()), expected);
}

TEST(ImageTest, ARegionOutsideOfTheImageIsAnError) {
  ImageDecoder decoder;
  Pixels pixels;
  for (const Example& example : make_examples({64, 48})) {
    for (const Rect region : {Rect{0, 0, 65, 48}, Rect{64, 0, 1, 1}, Rect{0, 0, 0, 1}, Rect{~0U, 0, 2, 1}}) {
      const auto done = decoder.decode(example.bytes, {.region = region}, pixels);
      ASSERT_FALSE(done) << example.name;
      EXPECT_EQ(done.error().code(), Code::kInvalid);
    }
  }
}

TEST(ImageTest, UnknownBytesAreShown) {
  ImageDecoder decoder;
  Pixels pixels;
  const auto done = decoder.decode("GIF89a\x01\xff", {}, pixels);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), Code::kUnsupported);
  EXPECT_EQ(done.error().message(), "not a JPEG, PNG or WebP: it begins with \"GIF89a\\x01\\xff\"");
  EXPECT_FALSE(decoder.decode("", {}, pixels));
}

TEST(ImageTest, MemoryIsUsedAgain) {
  ImageDecoder decoder;
  Pixels pixels;
  ASSERT_TRUE(decoder.decode(encode_jpeg(make_picture({200, 100}).view()), {}, pixels));
  const uint8_t* before = pixels.row(0);
  ASSERT_TRUE(decoder.decode(encode_png(make_picture({20, 10}).view()), {}, pixels));
  EXPECT_EQ(pixels.size(), (Size{20, 10}));
  EXPECT_EQ(pixels.row(0), before);
}

}  // namespace
}  // namespace millrace::decode
