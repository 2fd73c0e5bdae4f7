// Compressed streams: there and back through every format, in tiny steps, several behind each other, cut at
// every byte and damaged at every byte.
#include "tar/compress.h"

#include <bzlib.h>
#include <gtest/gtest.h>
#include <lzma.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using testing::StringSink;
using testing::StringSource;
using namespace std::literals;

constexpr Compression kAll[] = {Compression::kGzip, Compression::kZstd, Compression::kBzip2,
                                Compression::kXz};

std::string compress_bzip2(const std::string& bytes) {
  std::string out(bytes.size() + bytes.size() / 50 + 1000, '\0');
  auto size = static_cast<unsigned>(out.size());
  const int code = BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(bytes.data()),
                                            static_cast<unsigned>(bytes.size()), 9, 0, 0);
  EXPECT_EQ(code, BZ_OK);
  out.resize(size);
  return out;
}

std::string compress_xz(const std::string& bytes) {
  std::string out(lzma_stream_buffer_bound(bytes.size()), '\0');
  size_t size = 0;
  const lzma_ret code =
      lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(bytes.data()),
                              bytes.size(), reinterpret_cast<uint8_t*>(out.data()), &size, out.size());
  EXPECT_EQ(code, LZMA_OK);
  out.resize(size);
  return out;
}

// In steps of `step` bytes where we write the format ourselves.
std::string compress(Compression compression, const std::string& bytes, size_t step = SIZE_MAX) {
  if (compression == Compression::kBzip2) return compress_bzip2(bytes);
  if (compression == Compression::kXz) return compress_xz(bytes);
  StringSink sink;
  const std::unique_ptr<ByteSink> compressor = make_compressor(compression, sink).take();
  for (std::string_view left = bytes; !left.empty();) {
    const std::string_view piece = left.substr(0, step);
    EXPECT_TRUE(compressor->write(piece));
    left.remove_prefix(piece.size());
  }
  EXPECT_TRUE(compressor->finish());
  EXPECT_TRUE(sink.finished);
  return sink.bytes;
}

struct Steps {
  size_t in = SIZE_MAX;
  size_t out = 100'000;
};

Result<std::string> decompress(Compression compression, std::string_view compressed, Steps steps = {}) {
  StringSource source(compressed, steps.in);
  const std::unique_ptr<ByteSource> plain = MR_TRY(make_decompressor(compression, source, "test.tar"));
  std::string bytes;
  std::string step(steps.out, '\0');
  while (true) {
    const size_t got = MR_TRY(plain->read_some(std::as_writable_bytes(std::span(step))));
    if (got == 0) {
      // The end stays the end.
      const size_t again = MR_TRY(plain->read_some(std::as_writable_bytes(std::span(step))));
      EXPECT_EQ(again, 0u);
      return bytes;
    }
    bytes.append(step, 0, got);
  }
}

// Half of it repeats and half is noise, so that every kind of block occurs.
std::string varied_bytes(uint64_t seed, size_t size) {
  Random random(seed);
  std::string bytes;
  while (bytes.size() < size) {
    if (random.below(2) == 0) {
      bytes.append(random.below(200), static_cast<char>('a' + random.below(26)));
    } else {
      for (uint64_t i = random.below(200); i > 0; --i) bytes += static_cast<char>(random.next());
    }
  }
  bytes.resize(size);
  return bytes;
}

class EveryCompressionTest : public ::testing::TestWithParam<Compression> {};

INSTANTIATE_TEST_SUITE_P(Formats, EveryCompressionTest, ::testing::ValuesIn(kAll),
                         [](const auto& about) { return std::string(compression_name(about.param)); });

TEST_P(EveryCompressionTest, RoundTripsEverySize) {
  for (const size_t size : {0, 1, 511, 512, 10'240, 262'144, 1'000'000}) {
    SCOPED_TRACE(size);
    const std::string bytes = varied_bytes(size, size);
    const std::string compressed = compress(GetParam(), bytes);
    EXPECT_EQ(recognise_compression(compressed.substr(0, kMagicBytes)), GetParam());
    const auto back = decompress(GetParam(), compressed);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_TRUE(*back == bytes);
  }
}

TEST_P(EveryCompressionTest, RoundTripsHighlyCompressibleData) {
  const std::string bytes(5'000'000, '\0');
  const auto back = decompress(GetParam(), compress(GetParam(), bytes, 700'000));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_TRUE(*back == bytes);
}

TEST_P(EveryCompressionTest, RoundTripsInTinySteps) {
  const std::string bytes = varied_bytes(3, 20'000);
  const std::string compressed = compress(GetParam(), bytes, 10);
  for (const Steps steps :
       {Steps{1, 100'000}, Steps{SIZE_MAX, 1}, Steps{1, 1}, Steps{7, 13}, Steps{1000, 512}}) {
    SCOPED_TRACE(fmt::format("{} in, {} out", steps.in, steps.out));
    const auto back = decompress(GetParam(), compressed, steps);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_TRUE(*back == bytes);
  }
}

TEST_P(EveryCompressionTest, SeveralStreamsBehindEachOtherAreOne) {
  const std::string first = varied_bytes(1, 10'000);
  const std::string second = varied_bytes(2, 3000);
  const std::string compressed = compress(GetParam(), first) + compress(GetParam(), "") +
                                 compress(GetParam(), second) + compress(GetParam(), "x");
  for (const Steps steps : {Steps{}, Steps{1, 100'000}, Steps{3, 5}, Steps{SIZE_MAX, 1}}) {
    SCOPED_TRACE(fmt::format("{} in, {} out", steps.in, steps.out));
    const auto back = decompress(GetParam(), compressed, steps);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_TRUE(*back == first + second + "x");
  }
}

TEST_P(EveryCompressionTest, AStreamCutAtAnyByteIsAnErrorThatNamesIt) {
  const std::string bytes = varied_bytes(4, 1500);
  const std::string compressed = compress(GetParam(), bytes);
  for (size_t size = 0; size < compressed.size(); ++size) {
    for (const Steps steps : {Steps{}, Steps{50, 100}}) {
      SCOPED_TRACE(size);
      const auto back = decompress(GetParam(), std::string_view(compressed).substr(0, size), steps);
      ASSERT_FALSE(back);
      EXPECT_EQ(back.error().code(), Code::kTruncated) << back.error().message();
      EXPECT_TRUE(back.error().message().starts_with("test.tar (")) << back.error().message();
    }
  }
}

TEST_P(EveryCompressionTest, ASecondStreamCutAtAnyByteIsAnError) {
  const std::string first = compress(GetParam(), varied_bytes(5, 700));
  const std::string compressed = first + compress(GetParam(), varied_bytes(6, 700));
  for (size_t size = first.size() + 1; size < compressed.size(); ++size) {
    EXPECT_FALSE(decompress(GetParam(), std::string_view(compressed).substr(0, size))) << size;
  }
}

TEST_P(EveryCompressionTest, AFlippedByteNeverGivesOtherData) {
  const std::string bytes = varied_bytes(7, 1500);
  std::string compressed = compress(GetParam(), bytes);
  int noticed = 0;
  for (size_t at = 0; at < compressed.size(); ++at) {
    for (const int flip : {0x01, 0x10, 0x80, 0xff}) {
      compressed[at] = static_cast<char>(compressed[at] ^ flip);
      const auto back = decompress(GetParam(), compressed);
      // Bytes that mean nothing (a time, an operating system) may change unnoticed; data may not.
      if (back) {
        EXPECT_TRUE(*back == bytes) << "byte " << at << " flipped by " << flip;
      } else {
        ++noticed;
      }
      compressed[at] = static_cast<char>(compressed[at] ^ flip);
    }
  }
  EXPECT_GT(noticed, static_cast<int>(compressed.size()) * 4 * 9 / 10);
}

TEST_P(EveryCompressionTest, OtherBytesBehindTheEndAreAnError) {
  const std::string compressed = compress(GetParam(), varied_bytes(8, 700));
  const auto back = decompress(GetParam(), compressed + "garbage, and enough of it to be seen as such");
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code(), Code::kCorrupt) << back.error().message();
}

TEST_P(EveryCompressionTest, BytesOfAnotherKindAreAnError) {
  EXPECT_FALSE(decompress(GetParam(), "this is not compressed at all, in no way"));
  for (uint64_t seed = 0; seed < 200; ++seed)
    EXPECT_FALSE(decompress(GetParam(), varied_bytes(seed, 300))) << seed;
}

TEST_P(EveryCompressionTest, SkipsAsFarAsThereIsSomething) {
  const std::string bytes = varied_bytes(9, 10'000);
  const std::string compressed = compress(GetParam(), bytes);
  StringSource source(compressed);
  const std::unique_ptr<ByteSource> plain = make_decompressor(GetParam(), source, "test.tar").take();
  EXPECT_EQ(*plain->skip(4000), 4000u);
  std::string next(5, '\0');
  EXPECT_EQ(*plain->read_some(std::as_writable_bytes(std::span(next))), 5u);
  EXPECT_EQ(next, bytes.substr(4000, 5));
  EXPECT_EQ(*plain->skip(100'000), 5995u);
}

class FailingSource final : public ByteSource {
 public:
  Result<size_t> read_some(std::span<std::byte>) override {
    return make_error(Code::kIo, "the drive is gone");
  }
  Result<uint64_t> skip(uint64_t) override { return make_error(Code::kIo, "the drive is gone"); }
};

TEST_P(EveryCompressionTest, PassesErrorsOfItsSourceOn) {
  FailingSource source;
  const std::unique_ptr<ByteSource> plain = make_decompressor(GetParam(), source, "test.tar").take();
  std::byte next;
  EXPECT_EQ(plain->read_some(std::span(&next, 1)).error().code(), Code::kIo);
}

TEST(GzipTest, ZerosBehindTheEndArePadding) {
  const std::string bytes = varied_bytes(10, 3000);
  const std::string compressed = compress(Compression::kGzip, bytes);
  for (const size_t zeros : {1, 511, 10'000, 600'000}) {
    for (const Steps steps : {Steps{}, Steps{100, 100}}) {
      EXPECT_TRUE(*decompress(Compression::kGzip, compressed + std::string(zeros, '\0'), steps) == bytes)
          << zeros;
    }
  }
  const std::string apart = compressed + std::string(100, '\0') + compressed;
  EXPECT_TRUE(*decompress(Compression::kGzip, apart) == bytes + bytes);
}

TEST(GzipTest, ReadsHeadersWithNamesExtrasAndComments) {
  const std::string bytes = varied_bytes(11, 3000);
  const std::string compressed = compress(Compression::kGzip, bytes);
  ASSERT_EQ(compressed[3], 0);
  const std::string rich = compressed.substr(0, 3) + "\x1c" + compressed.substr(4, 6) + "\x03\0abc"s +
                           "name.tar\0"s + "comment\0"s + compressed.substr(10);
  for (const Steps steps : {Steps{}, Steps{1, 100'000}}) {
    const auto back = decompress(Compression::kGzip, rich, steps);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_TRUE(*back == bytes);
  }
}

TEST(GzipTest, WritesTheSameBytesForTheSameInput) {
  const std::string bytes = varied_bytes(12, 100'000);
  EXPECT_EQ(compress(Compression::kGzip, bytes), compress(Compression::kGzip, bytes));
}

TEST(ZstdTest, PassesOverSkippableFrames) {
  const std::string skippable = "\x50\x2a\x4d\x18\x05\0\0\0hello"s;
  const std::string bytes = varied_bytes(13, 3000);
  const std::string compressed = skippable + compress(Compression::kZstd, bytes) + skippable;
  EXPECT_EQ(recognise_compression(compressed.substr(0, kMagicBytes)), Compression::kZstd);
  for (const Steps steps : {Steps{}, Steps{1, 100'000}, Steps{5, 7}}) {
    const auto back = decompress(Compression::kZstd, compressed, steps);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_TRUE(*back == bytes);
  }
}

TEST(CompressionTest, IsRecognisedByContentOnly) {
  EXPECT_EQ(recognise_compression(""), Compression::kNone);
  EXPECT_EQ(recognise_compression("\x1f"), Compression::kNone);
  EXPECT_EQ(recognise_compression("\x1f\x8b\x08"), Compression::kGzip);
  EXPECT_EQ(recognise_compression("BZh0.."), Compression::kNone);
  EXPECT_EQ(recognise_compression("BZh9.."), Compression::kBzip2);
  EXPECT_EQ(recognise_compression("\xfd"
                                  "7zXZ\0"sv),
            Compression::kXz);
  EXPECT_EQ(recognise_compression("\xfd"
                                  "7zXZ"sv),
            Compression::kNone);
  EXPECT_EQ(recognise_compression("\x5f\x2a\x4d\x18"), Compression::kZstd);
  EXPECT_EQ(recognise_compression("\x60\x2a\x4d\x18"), Compression::kNone);
  EXPECT_EQ(recognise_compression("a.jpg\0"sv), Compression::kNone);
}

TEST(CompressionTest, IsChosenForOutputByName) {
  EXPECT_EQ(compression_for_name("x.tgz"), Compression::kGzip);
  EXPECT_EQ(compression_for_name("x.tar.gz"), Compression::kGzip);
  EXPECT_EQ(compression_for_name("x.tar.zst"), Compression::kZstd);
  EXPECT_EQ(compression_for_name("x.tzst"), Compression::kZstd);
  for (const char* name : {"x.tar", "x", "", "x.gz.tar", "x.tar.xz"}) {
    EXPECT_EQ(compression_for_name(name), Compression::kNone) << name;
  }
}

TEST(CompressionTest, ParsesWhatMayBeWritten) {
  EXPECT_EQ(*parse_output_compression("none"), Compression::kNone);
  EXPECT_EQ(*parse_output_compression("gzip"), Compression::kGzip);
  EXPECT_EQ(*parse_output_compression("zst"), Compression::kZstd);
  for (const char* text : {"", "xz", "bzip2", "GZIP"}) {
    EXPECT_EQ(parse_output_compression(text).error().code(), Code::kInvalid) << text;
  }
}

TEST(CompressionTest, WritesOnlyPlainGzipAndZstd) {
  StringSink sink;
  EXPECT_EQ(make_compressor(Compression::kXz, sink).error().code(), Code::kUnsupported);
  EXPECT_EQ(make_compressor(Compression::kBzip2, sink).error().code(), Code::kUnsupported);
  const std::unique_ptr<ByteSink> plain = make_compressor(Compression::kNone, sink).take();
  ASSERT_TRUE(plain->write("ab"));
  ASSERT_TRUE(plain->write("cd", "ef"));
  ASSERT_TRUE(plain->finish());
  EXPECT_EQ(sink.bytes, "abcdef");
  EXPECT_TRUE(sink.finished);
}

TEST(CompressionTest, PlainBytesHaveNoDecompressor) {
  StringSource source("x");
  EXPECT_EQ(make_decompressor(Compression::kNone, source, "test.tar").error().code(), Code::kInvalid);
}

class FullSink final : public ByteSink {
 public:
  using ByteSink::write;
  Status write(std::string_view) override { return make_error(Code::kNoSpace, "full"); }
  Status finish() override { return make_error(Code::kNoSpace, "full"); }
};

TEST(CompressionTest, PassesErrorsOfTheSinkOn) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    FullSink sink;
    const std::unique_ptr<ByteSink> compressor = make_compressor(compression, sink).take();
    const std::string noise = varied_bytes(14, 3'000'000);
    EXPECT_EQ(compressor->write(noise).error().code(), Code::kNoSpace);
  }
}

}  // namespace
}  // namespace millrace::tar
