// ByteSource and Window: where an archive's bytes come from, and the stretch of them in sight.
//
// A ByteSource gives bytes in order: a file, a socket, a decompressor. A Window makes them addressable by
// offset: whole for a mapped archive (no copy at all), sliding for a stream (one copy, out of the kernel,
// into a buffer that stays in the processor's cache). Views are valid until the next call. One thread each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace millrace::tar {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual Result<size_t> read_some(std::span<std::byte> into) = 0;  // 0 at the end
  // Passes over bytes without reading them where that is cheaper; less than asked only at the end.
  virtual Result<uint64_t> skip(uint64_t bytes) = 0;
  // What it keeps beside the bytes that it is given; a decompressor's window may be large.
  virtual uint64_t memory() const { return 0; }
};

// Passing over bytes by reading them.
Result<uint64_t> skip_by_reading(ByteSource& source, uint64_t bytes);

class Window {
 public:
  virtual ~Window() = default;

  // The bytes from `at` on: at least `want` of them unless the archive ends before. Bytes from `keep` on
  // (keep <= at) stay in sight for later calls; anything before may go, for good.
  virtual Result<std::string_view> view(uint64_t keep, uint64_t at, uint64_t want) = 0;

  // Where the archive ends, once view() has given less than it was asked for.
  virtual uint64_t end() const = 0;
};

class MappedWindow final : public Window {
 public:
  explicit MappedWindow(std::string_view archive) : archive_(archive) {}
  Result<std::string_view> view(uint64_t keep, uint64_t at, uint64_t want) override;
  uint64_t end() const override { return archive_.size(); }

 private:
  const std::string_view archive_;
};

// Memory in whole pages.
struct FreePages {
  void operator()(std::byte* memory) const;
};
using PageMemory = std::unique_ptr<std::byte[], FreePages>;
class StreamWindow final : public Window {
 public:
  // Half a processor's second-level cache: larger buffers fall out of it and read slower.
  static constexpr size_t kStartBytes = 512 << 10;
  static constexpr uint64_t kDefaultMostBytes = uint64_t{2} << 30;

  // Never holds more than `most_bytes` in sight; a sample larger than that is an error.
  explicit StreamWindow(ByteSource& source, uint64_t most_bytes = kDefaultMostBytes)
      : source_(source), most_bytes_(most_bytes) {}
  Result<std::string_view> view(uint64_t keep, uint64_t at, uint64_t want) override;
  uint64_t end() const override { return begin_ + filled_; }

 private:
  Status make_room(uint64_t keep, uint64_t until);
  Status grow();

  ByteSource& source_;
  const uint64_t most_bytes_;
  PageMemory buffer_;
  size_t capacity_ = 0;
  uint64_t begin_ = 0;  // archive offset of buffer_[0]
  size_t filled_ = 0;
  size_t read_bytes_ = kStartBytes;
  bool at_end_ = false;
};

}  // namespace millrace::tar
