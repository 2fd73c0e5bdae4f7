// PixelKeep: decoded images kept in memory from one epoch to the next, up to a number of bytes.
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
#include <unordered_map>

#include "decode/pixels.h"
#include "loader/order.h"

namespace millrace::loader {

class PixelKeep {
 public:
  PixelKeep(uint64_t most_bytes, uint32_t max_side) : most_bytes_(most_bytes), max_side_(max_side) {}

  uint32_t max_side() const { return max_side_; }
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
    std::unique_ptr<uint8_t[]> bytes;
    decode::Size size;
    decode::Channels channels;
  };
  struct Part {
    mutable std::mutex mutex;
    std::unordered_map<Name, Kept, NameHash> kept;  // guarded by mutex
  };

  const uint64_t most_bytes_;
  const uint32_t max_side_;
  std::atomic<uint64_t> bytes_ = 0;
  std::array<Part, 64> parts_;
};

}  // namespace millrace::loader
