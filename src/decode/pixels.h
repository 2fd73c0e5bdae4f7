// Pixels: rows of interleaved 8-bit samples, in memory that is used again.
//
// A PixelsView points at rows that someone else owns; rows lie row_bytes apart. A Pixels owns its rows and
// never gives memory back before it dies, so that one per thread serves every image. One thread each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace::decode {

enum class Channels : uint8_t { kGray = 1, kRgb = 3, kRgba = 4 };

inline size_t count(Channels channels) {
  return static_cast<size_t>(channels);
}

struct Size {
  uint32_t width = 0;
  uint32_t height = 0;
  bool operator==(const Size&) const = default;
};

struct Rect {
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  bool operator==(const Rect&) const = default;

  Size size() const { return {width, height}; }
  // Not empty, and inside of an image of this size.
  bool fits(Size image) const {
    return width > 0 && height > 0 && uint64_t{x} + width <= image.width &&
           uint64_t{y} + height <= image.height;
  }
};

inline Rect whole(Size size) {
  return {0, 0, size.width, size.height};
}

struct PixelsView {
  const uint8_t* bytes = nullptr;
  Size size;
  Channels channels = Channels::kRgb;
  size_t row_bytes = 0;  // from one row to the next

  const uint8_t* row(uint32_t y) const { return bytes + y * row_bytes; }
  PixelsView part(Rect rect) const {
    return {row(rect.y) + rect.x * count(channels), rect.size(), channels, row_bytes};
  }
};

class Pixels {
 public:
  // What was in the rows before is lost. Never shrinks the memory behind.
  void resize(Size size, Channels channels);

  Size size() const { return size_; }
  Channels channels() const { return channels_; }
  size_t row_bytes() const { return size_.width * count(channels_); }
  size_t byte_count() const { return row_bytes() * size_.height; }
  size_t capacity() const { return capacity_; }

  uint8_t* row(uint32_t y) { return bytes_.get() + y * row_bytes(); }
  const uint8_t* row(uint32_t y) const { return bytes_.get() + y * row_bytes(); }
  PixelsView view() const { return {bytes_.get(), size_, channels_, row_bytes()}; }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t capacity_ = 0;
  Size size_;
  Channels channels_ = Channels::kRgb;
};

}  // namespace millrace::decode
