// PixelFile: decoded images in a file that outlives the process, one record after the other.
//
// The file's name says what was decoded and how (Options::identity), so other data never finds it. One
// process at a time has a file; another of the same data gets the next one. Nothing is flushed: every record
// carries a checksum of its head, by which the end is found after a crash, and one of its pixels, which
// whoever reads them first compares. add() is thread-safe; memory stays valid as long as the object.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "decode/pixels.h"
#include "loader/order.h"

namespace millrace::loader {

// What a record says of its image. Pixels follow its head, row by row without gaps.
struct PixelRecord {
  SampleRef sample;
  uint32_t field = 0;
  decode::Size size;
  decode::Channels channels = decode::Channels::kRgb;
  uint64_t pixels_hash = 0;
  uint64_t pixels_offset = 0;  // in the file; not stored

  uint64_t pixels_bytes() const { return uint64_t{size.width} * size.height * decode::count(channels); }
};

// The records of a file up to the first that is torn, damaged or of another identity.
std::vector<PixelRecord> parse_pixel_records(std::string_view file, uint64_t identity);

class PixelFile {
 public:
  struct Options {
    std::string directory;
    uint64_t identity = 0;
    uint64_t most_bytes = 0;  // of the file
  };
  static Result<std::unique_ptr<PixelFile>> open(const Options& options);
  ~PixelFile();
  PixelFile(const PixelFile&) = delete;
  PixelFile& operator=(const PixelFile&) = delete;

  // What was there when it was opened.
  const std::vector<PixelRecord>& found() const { return found_; }
  const uint8_t* pixels(const PixelRecord& record) const { return mapping_ + record.pixels_offset; }
  // Where the pixels are now; null where the file is full or the drive does not take them.
  const uint8_t* add(SampleRef sample, uint32_t field, const decode::Pixels& pixels);

 private:
  explicit PixelFile(const Options& options) : options_(options) {}
  Status take_file();
  Status map_and_read();

  const Options options_;
  File file_;
  uint8_t* mapping_ = nullptr;
  std::vector<PixelRecord> found_;
  std::atomic<uint64_t> end_ = 0;  // of what is in the file, or was meant to be
};

}  // namespace millrace::loader
