// ReadTimes: when objects were last read, to the second, cheaply enough for every request.
//
// A fixed table of seconds, by the hash of the name: a read looks at one word, and writes it at most once a
// second. Two names that share a word make both look as recent as the later one. Forgotten with the process.
// Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/hash.h"

namespace millrace::upstream {

class ReadTimes {
 public:
  static constexpr size_t kSlots = size_t{1} << 20;

  void note(std::string_view bucket, std::string_view key) {
    std::atomic<uint32_t>& slot = slots_[slot_of(bucket, key)];
    const uint32_t second = now();
    if (slot.load(std::memory_order_relaxed) != second) slot.store(second, std::memory_order_relaxed);
  }
  // Seconds since it was read; UINT32_MAX: not since the start of the process.
  uint32_t seconds_ago(std::string_view bucket, std::string_view key) const {
    const uint32_t second = slots_[slot_of(bucket, key)].load(std::memory_order_relaxed);
    return second == 0 ? UINT32_MAX : now() - second;
  }

 private:
  static uint32_t now() { return static_cast<uint32_t>(coarse_us() / 1'000'000) + 1; }
  static size_t slot_of(std::string_view bucket, std::string_view key) {
    return hash64(key, hash64(bucket)) % kSlots;
  }

  const std::unique_ptr<std::atomic<uint32_t>[]> slots_ = std::make_unique<std::atomic<uint32_t>[]>(kSlots);
};

}  // namespace millrace::upstream
