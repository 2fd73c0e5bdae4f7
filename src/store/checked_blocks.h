// CheckedBlocks: which blocks of an object were compared with their checksums since they came from the drive.
//
// Bytes in the page cache do not change by themselves, so one look is enough until the file is written (its
// time of change moves) or the object leaves the memory. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace millrace::store {

class CheckedBlocks {
 public:
  // `blocks` of each file.
  explicit CheckedBlocks(const std::vector<uint64_t>& blocks) : changed_ns_(blocks.size()) {
    uint64_t count = 0;
    for (const uint64_t here : blocks) {
      first_.push_back(count);
      count += here;
    }
    first_.push_back(count);
    words_ = std::vector<std::atomic<uint64_t>>((count + 63) / 64);
  }

  // Counted over the whole object.
  uint64_t first_of(size_t file) const { return first_[file]; }

  bool is_checked(size_t file, uint64_t block, int64_t changed_ns) const {
    if (changed_ns_[file].load(std::memory_order_acquire) != changed_ns) return false;
    const uint64_t at = first_[file] + block;
    return (words_[at / 64].load(std::memory_order_acquire) >> (at % 64) & 1) != 0;
  }
  // `changed_ns`: the file's time of change before the block was read.
  void set_checked(size_t file, uint64_t block, int64_t changed_ns) {
    if (changed_ns_[file].exchange(changed_ns, std::memory_order_acq_rel) != changed_ns) {
      for (uint64_t at = first_[file]; at < first_[file + 1]; ++at)
        words_[at / 64].fetch_and(~(uint64_t{1} << at % 64), std::memory_order_acq_rel);
    }
    const uint64_t at = first_[file] + block;
    words_[at / 64].fetch_or(uint64_t{1} << at % 64, std::memory_order_acq_rel);
  }

 private:
  std::vector<uint64_t> first_;  // block of each file; one more than there are files
  std::vector<std::atomic<int64_t>> changed_ns_;
  std::vector<std::atomic<uint64_t>> words_;  // a bit per block
};

}  // namespace millrace::store
