// Both implementations, windows, and memory that ends where the pixels end. That values are PIL's is tested
// in tests/decode.
#include "decode/resample.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "decode/testing/encode.h"

namespace millrace::decode {
namespace {

Size random_size(Random& random, uint64_t most) {
  return {1 + static_cast<uint32_t>(random.below(most)), 1 + static_cast<uint32_t>(random.below(most))};
}

Box whole_box(Size size) {
  return {0, 0, static_cast<double>(size.width), static_cast<double>(size.height)};
}

TEST(ResampleTest, BothImplementationsGiveTheSameBytes) {
  if (best_instructions() != Instructions::kAvx2) GTEST_SKIP() << "no AVX2 here";
  Random random(17);
  ResampleScratch plain(Instructions::kPlain);
  ResampleScratch wide(Instructions::kAvx2);
  Pixels expected;
  Pixels found;
  for (int i = 0; i < 600; ++i) {
    const Channels channels = std::array{Channels::kGray, Channels::kRgb, Channels::kRgba}[random.below(3)];
    const Size in = random_size(random, i % 2 == 0 ? 40 : 300);
    const Size out = random_size(random, 120);
    const Pixels picture = make_picture(in, channels, random.next());
    // A copy of its own on the heap: reading behind the last pixel would be noticed by the sanitizer.
    const std::string bytes = bytes_of(picture.view());
    std::vector<uint8_t> exact(bytes.begin(), bytes.end());
    const PixelsView view{exact.data(), in, channels, in.width * count(channels)};
    Box box = whole_box(in);
    if (i % 3 == 0) {
      box.x = random.unit() * in.width / 2;
      box.width = std::max(0.1, random.unit() * (in.width - box.x));
      box.y = random.unit() * in.height / 2;
      box.height = std::max(0.1, random.unit() * (in.height - box.y));
    }
    resample(view, box, out, plain, expected);
    resample(view, box, out, wide, found);
    ASSERT_EQ(bytes_of(found.view()), bytes_of(expected.view()))
        << "round " << i << ": " << in.width << "x" << in.height << " to " << out.width << "x" << out.height;
  }
}

TEST(ResampleTest, AWindowHasTheBytesOfTheWholeResult) {
  Random random(23);
  ResampleScratch scratch;
  Pixels all;
  for (int i = 0; i < 300; ++i) {
    const Size in = random_size(random, 200);
    const Size out = i % 5 == 0 ? in : random_size(random, 150);
    const Pixels picture = make_picture(in, Channels::kRgb, random.next());
    resample(picture.view(), whole_box(in), out, scratch, all);
    Rect window;
    window.x = static_cast<uint32_t>(random.below(out.width));
    window.y = static_cast<uint32_t>(random.below(out.height));
    window.width = 1 + static_cast<uint32_t>(random.below(out.width - window.x));
    window.height = 1 + static_cast<uint32_t>(random.below(out.height - window.y));
    const Resampling resampling{in, whole_box(in), out, window};
    const Rect needed = resampling.needed();
    ASSERT_TRUE(needed.fits(in));
    scratch.start(resampling, picture.view().part(needed), needed);
    const std::string expected = bytes_of(all.view().part(window));
    for (uint32_t y = 0; y < window.height; ++y) {
      ASSERT_EQ(std::memcmp(scratch.row(y), expected.data() + size_t{y} * window.width * 3,
                            size_t{window.width} * 3),
                0)
          << "round " << i << " row " << y;
    }
  }
}

TEST(ResampleTest, TheSameSizeChangesNothing) {
  const Pixels picture = make_picture({40, 30});
  ResampleScratch scratch;
  Pixels out;
  resample(picture.view(), whole_box({40, 30}), {40, 30}, scratch, out);
  EXPECT_EQ(bytes_of(out.view()), bytes_of(picture.view()));
}

TEST(ResampleTest, AFlatImageStaysFlat) {
  Pixels flat;
  flat.resize({97, 61}, Channels::kRgb);
  ResampleScratch scratch;
  Pixels out;
  for (const int level : {0, 1, 128, 254, 255}) {
    std::memset(flat.row(0), level, flat.byte_count());
    for (const Size size : {Size{1, 1}, Size{33, 200}, Size{300, 7}}) {
      resample(flat.view(), whole_box({97, 61}), size, scratch, out);
      EXPECT_EQ(bytes_of(out.view()), std::string(out.byte_count(), static_cast<char>(level)));
    }
  }
}

}  // namespace
}  // namespace millrace::decode
