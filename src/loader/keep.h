// PixelKeep: decoded images kept from one epoch to the next, up to a number of bytes: in memory, or in a file
// without a name on a local drive, of which the system keeps in memory what it has room for.
//
// What came first stays: within an epoch every sample is wanted once, so evicting would only trade one hit
// for another. Thread-safe; a view stays valid as long as the keep.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/file.h"
#include "base/result.h"
#include "decode/pixels.h"
#include "loader/order.h"

namespace millrace::loader {

class PixelKeep {
 public:
  struct Options {
    uint64_t most_bytes = 0;
    uint32_t max_side = 0;
    std::string directory;  // of the file; empty: in memory
  };
  static Result<std::shared_ptr<PixelKeep>> open(const Options& options);
  ~PixelKeep();

  uint32_t max_side() const { return options_.max_side; }
  uint64_t bytes() const { return bytes_; }
  uint64_t images() const;
  // `field` tells several images of one sample apart.
  std::optional<decode::PixelsView> find(SampleRef sample, size_t field) const;
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
  };
  struct Part {
    mutable std::mutex mutex;
    std::unordered_map<Name, Kept, NameHash> kept;  // guarded by mutex
  };

  explicit PixelKeep(Options options) : options_(std::move(options)) {}
  Status open_file();
  const uint8_t* write(uint64_t offset, const uint8_t* bytes, uint64_t size);

  const Options options_;
  File file_;
  uint8_t* mapping_ = nullptr;  // of the file
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> end_ = 0;  // of what is in the file, or was meant to be
  std::array<Part, 64> parts_;
};

}  // namespace millrace::loader
