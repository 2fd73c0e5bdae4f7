// PixelKeep: decoded images kept from one epoch to the next, up to a number of bytes. They are in memory, or
// in a file on a local drive that a later process finds again; the page cache then holds as much of it as
// fits.
//
// What came first stays: within an epoch every sample is wanted once, so evicting would only trade one hit
// for another. Thread-safe; a view stays valid as long as the keep.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "base/result.h"
#include "decode/pixels.h"
#include "loader/catalogue.h"
#include "loader/order.h"
#include "loader/pixel_file.h"
#include "loader/recipe.h"

namespace millrace::loader {

// The same for the same images, decoded in the same way.
uint64_t pixels_identity(const Catalogue& catalogue, const Recipe& recipe, uint32_t max_side);

class PixelKeep {
 public:
  struct Options {
    uint64_t most_bytes = 0;
    uint32_t max_side = 0;
    std::string directory;  // of the file; empty: in memory
    uint64_t identity = 0;  // for the file
  };
  static Result<std::shared_ptr<PixelKeep>> open(const Options& options);

  uint32_t max_side() const { return options_.max_side; }
  uint64_t bytes() const { return bytes_; }
  uint64_t images() const;
  // `field` tells several images of one sample apart. What was found once stays.
  std::optional<decode::PixelsView> find(SampleRef sample, size_t field);
  void keep(SampleRef sample, size_t field, const decode::Pixels& pixels);

 private:
  struct Name {
    SampleRef sample;
    size_t field;
    bool operator==(const Name&) const = default;
  };
  struct NameHash {
    size_t operator()(const Name& name) const;
  };
  struct Kept {
    std::unique_ptr<uint8_t[]> own;  // in memory
    const uint8_t* bytes;
    decode::Size size;
    decode::Channels channels;
    std::optional<uint64_t> hash;  // of pixels that an earlier process left and nobody has looked at yet
    uint64_t byte_count() const { return uint64_t{size.width} * size.height * decode::count(channels); }
  };
  struct Part {
    mutable Mutex mutex;
    std::unordered_map<Name, Kept, NameHash> kept MR_GUARDED_BY(mutex);
  };

  explicit PixelKeep(Options options) : options_(std::move(options)) {}
  Part& part_of(const Name& name) { return parts_[NameHash()(name) % parts_.size()]; }
  void insert(const Name& name, Kept kept);

  const Options options_;
  std::unique_ptr<PixelFile> file_;     // null: in memory
  std::atomic<uint64_t> bytes_ = 0;     // of pixels that can be found
  std::atomic<uint64_t> promised_ = 0;  // in memory: of those that have a place
  std::array<Part, 64> parts_;
};

}  // namespace millrace::loader
