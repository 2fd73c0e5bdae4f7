// gzip in memory: several streams, padding, limits, damage.
#include "decode/inflate.h"

#include <gtest/gtest.h>
#include <isa-l/igzip_lib.h>

namespace millrace::decode {
namespace {

std::string deflate(const std::string& plain) {
  isal_zstream stream;
  isal_deflate_stateless_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uint32_t>(plain.size());
  std::string packed(plain.size() + 4096, '\0');
  stream.next_out = reinterpret_cast<uint8_t*>(packed.data());
  stream.avail_out = static_cast<uint32_t>(packed.size());
  EXPECT_EQ(isal_deflate_stateless(&stream), COMP_OK);
  packed.resize(stream.total_out);
  return packed;
}

std::string make_text(size_t bytes) {
  std::string text;
  for (size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i * i) + " ";
  text.resize(bytes);
  return text;
}

TEST(InflateTest, UndoesOneStreamOrSeveralWithPadding) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65'536}, size_t{1'000'000}}) {
    const std::string plain = make_text(size);
    const std::string packed = deflate(plain);
    EXPECT_EQ(*gunzip(packed, 10'000'000), plain);
    EXPECT_EQ(*gunzip(packed + packed, 10'000'000), plain + plain);
    EXPECT_EQ(*gunzip(packed + std::string(100, '\0'), 10'000'000), plain);
  }
}

TEST(InflateTest, TheLimitIsExact) {
  const std::string plain = make_text(200'000);
  const std::string packed = deflate(plain);
  EXPECT_EQ(*gunzip(packed, 200'000), plain);
  const auto over = gunzip(packed, 199'999);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code(), Code::kTooLarge);
  EXPECT_EQ(*gunzip(packed, UINT64_MAX), plain);
}

TEST(InflateTest, ABombIsStoppedAtTheLimit) {
  const std::string packed = deflate(std::string(50'000'000, 'x'));
  const auto done = gunzip(packed, 1'000'000);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), Code::kTooLarge);
}

TEST(InflateTest, EveryCutIsAnError) {
  const std::string packed = deflate(make_text(3000));
  for (size_t length = 0; length < packed.size(); ++length) {
    EXPECT_FALSE(gunzip(packed.substr(0, length), 1'000'000)) << length;
  }
}

TEST(InflateTest, DamageAndTrailersAreErrors) {
  std::string packed = deflate(make_text(3000));
  EXPECT_EQ(gunzip(packed + "x", 1'000'000).error().code(), Code::kCorrupt);
  packed[packed.size() - 6] ^= 1;
  EXPECT_EQ(gunzip(packed, 1'000'000).error().code(), Code::kCorrupt);
  EXPECT_EQ(gunzip("plain text", 1'000'000).error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace millrace::decode
