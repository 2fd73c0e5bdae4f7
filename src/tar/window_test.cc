// Windows: what is in sight, what has gone, how a stream's buffer grows, and its limit.
#include "tar/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/random.h"
#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using testing::StringSource;

std::string counted_bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(mix(i / 8) >> (i % 8));
  return bytes;
}

class FailingSource final : public ByteSource {
 public:
  Result<size_t> read_some(std::span<std::byte>) override {
    return make_error(Code::kIo, "the drive is gone");
  }
  Result<uint64_t> skip(uint64_t) override { return make_error(Code::kIo, "the drive is gone"); }
};

TEST(SkipByReadingTest, SaysHowFarItCame) {
  StringSource source(std::string_view("0123456789"), 3);
  EXPECT_EQ(*skip_by_reading(source, 0), 0u);
  EXPECT_EQ(*skip_by_reading(source, 4), 4u);
  std::byte next;
  EXPECT_EQ(*source.read_some(std::span(&next, 1)), 1u);
  EXPECT_EQ(next, std::byte{'4'});
  EXPECT_EQ(*skip_by_reading(source, 100), 5u);
}

TEST(SkipByReadingTest, PassesErrorsOn) {
  FailingSource source;
  EXPECT_EQ(skip_by_reading(source, 5).error().code(), Code::kIo);
}

TEST(MappedWindowTest, ShowsEverythingFromThePlaceOn) {
  MappedWindow window("0123456789");
  EXPECT_EQ(*window.view(0, 0, 1), "0123456789");
  EXPECT_EQ(*window.view(3, 7, 1), "789");
  EXPECT_EQ(*window.view(0, 10, 1), "");
  EXPECT_EQ(*window.view(0, 1000, 1), "");
  EXPECT_EQ(window.end(), 10u);
}

TEST(StreamWindowTest, ShowsAtLeastWhatIsWantedUntilTheEnd) {
  const std::string bytes = counted_bytes(100'000);
  StringSource source(bytes, 1000);
  StreamWindow window(source);
  const std::string_view first = window.view(0, 0, 10).take();
  EXPECT_GE(first.size(), 10u);
  EXPECT_EQ(first, std::string_view(bytes).substr(0, first.size()));
  const std::string_view later = window.view(0, 50'000, 20'000).take();
  EXPECT_GE(later.size(), 20'000u);
  EXPECT_EQ(later, std::string_view(bytes).substr(50'000, later.size()));
  EXPECT_EQ(*window.view(0, 99'000, 5000), std::string_view(bytes).substr(99'000));
  EXPECT_EQ(window.end(), 100'000u);
  EXPECT_EQ(*window.view(0, 100'000, 1), "");
  EXPECT_EQ(*window.view(0, 200'000, 1), "");
}

TEST(StreamWindowTest, GrowsForWhatMustStayInSight) {
  const std::string bytes = counted_bytes(5 * StreamWindow::kStartBytes + 12'345);
  StringSource source(bytes, 100'000);
  StreamWindow window(source);
  for (uint64_t at = 0; at + 1000 < bytes.size(); at += 200'000) {
    ASSERT_GE(window.view(100, at + 100, 500)->size(), 500u);
  }
  const std::string_view all = window.view(100, 100, bytes.size() - 100).take();
  EXPECT_EQ(all, std::string_view(bytes).substr(100));
}

// Endless, and remembers the most that was ever asked for at once: the size of the window's buffer.
class EndlessSource final : public ByteSource {
 public:
  Result<size_t> read_some(std::span<std::byte> into) override {
    largest_ask = std::max(largest_ask, into.size());
    const size_t size = std::min<size_t>(into.size(), 50'000);
    for (size_t i = 0; i < size; ++i) into[i] = static_cast<std::byte>(mix(at_ + i));
    at_ += size;
    return size;
  }
  Result<uint64_t> skip(uint64_t bytes) override {
    at_ += bytes;
    return bytes;
  }

  size_t largest_ask = 0;

 private:
  uint64_t at_ = 0;
};

TEST(StreamWindowTest, ForgetsWhatIsNotKeptWithoutGrowing) {
  EndlessSource source;
  StreamWindow window(source, 20'000);
  for (uint64_t at = 0; at < 3 * StreamWindow::kStartBytes; at += 777) {
    const auto view = window.view(at, at, 20'000);
    ASSERT_TRUE(view) << view.error().message();
    ASSERT_GE(view->size(), 20'000u);
    ASSERT_EQ(view->front(), static_cast<char>(mix(at)));
    ASSERT_EQ((*view)[19'999], static_cast<char>(mix(at + 19'999)));
  }
  EXPECT_LE(source.largest_ask, StreamWindow::kStartBytes);
}

TEST(StreamWindowTest, MoreThanItsMaximumIsAnErrorWithAHint) {
  const std::string bytes = counted_bytes(100'000);
  StringSource source(bytes);
  StreamWindow window(source, 10'000);
  EXPECT_TRUE(window.view(0, 0, 10'000));
  const auto view = window.view(0, 600'000, 1);
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code(), Code::kTooLarge);
  EXPECT_NE(view.error().hint().find("--max-sample"), std::string::npos);
}

TEST(StreamWindowTest, SkipsWhatNobodyWantsToSee) {
  const std::string bytes = counted_bytes(3 << 20);
  StringSource source(bytes, 4096);
  StreamWindow window(source);
  ASSERT_TRUE(window.view(0, 0, 512));
  const std::string_view view = window.view(2 << 20, 2 << 20, 512).take();
  EXPECT_EQ(view.substr(0, 512), std::string_view(bytes).substr(2 << 20, 512));
  EXPECT_EQ(source.skipped(), (2u << 20) - 4096);
}

TEST(StreamWindowTest, SkippingBeyondTheEndFindsTheEnd) {
  const std::string bytes = counted_bytes(10'000);
  StringSource source(bytes, 1000);
  StreamWindow window(source);
  ASSERT_TRUE(window.view(0, 0, 512));
  EXPECT_EQ(*window.view(50'000, 50'000, 512), "");
  EXPECT_EQ(window.end(), 10'000u);
  EXPECT_EQ(*window.view(60'000, 60'000, 512), "");
}

TEST(StreamWindowTest, PassesErrorsOfItsSourceOn) {
  FailingSource source;
  StreamWindow window(source);
  EXPECT_EQ(window.view(0, 0, 1).error().code(), Code::kIo);
  EXPECT_EQ(window.view(1000, 1000, 1).error().code(), Code::kIo);
}

TEST(StreamWindowTest, EqualsAMappedWindowOnRandomWalks) {
  const std::string bytes = counted_bytes(3 << 20);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    StringSource source(bytes, 1 + random.below(200'000));
    StreamWindow window(source);
    uint64_t keep = 0;
    while (keep < bytes.size() + 10'000) {
      const uint64_t at = keep + random.below(50'000);
      const uint64_t want = random.below(random.below(10) == 0 ? 900'000 : 5000);
      const std::string_view view = window.view(keep, at, want).take();
      const std::string_view expected =
          at < bytes.size() ? std::string_view(bytes).substr(at, want) : std::string_view();
      ASSERT_EQ(view.substr(0, want), expected);
      keep += random.below(3) == 0 ? 0 : random.below(random.below(10) == 0 ? 1'500'000 : 60'000);
    }
  }
}

TEST(WindowDeathTest, LookingBeforeWhatIsKeptIsABug) {
  MappedWindow mapped("0123456789");
  EXPECT_DEATH(static_cast<void>(mapped.view(5, 4, 1)), "keep <= at");
  const std::string bytes = counted_bytes(2 << 20);
  StringSource source(bytes);
  StreamWindow window(source);
  ASSERT_TRUE(window.view(1 << 20, 1 << 20, 1));
  EXPECT_DEATH(static_cast<void>(window.view(0, 0, 1)), "begin_ <= keep");
}

}  // namespace
}  // namespace millrace::tar
