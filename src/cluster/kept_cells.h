// KeptCells: cells of slices that one reader keeps for a while, so that each is asked for once.
//
// Several lost cells of a stripe are brought back from the same others. Those who want a cell that is on its
// way wait for it together. Where the memory is used up nothing is kept. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/mutex.h"
#include "base/result.h"
#include "store/objects.h"

namespace millrace::cluster {

// Some bytes of one slice.
struct SliceRange {
  unsigned slot = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  auto operator<=>(const SliceRange&) const = default;
};

class KeptCells {
 public:
  // Of at most so many cells.
  KeptCells(std::shared_ptr<Budget> memory, size_t most) : memory_(std::move(memory)), most_(most) {}

  // Calls `done` with the cell: now, or when it arrives.
  enum class Coming : uint8_t { kYes, kToBeAsked };  // kToBeAsked: the caller asks for it, and calls arrive()
  Coming wait(const SliceRange& range, store::Done<Bytes> done);
  void arrive(const SliceRange& range, const Result<Bytes>& bytes);

 private:
  struct Cell {
    Charge charge;
    std::optional<Bytes> bytes;
    std::vector<store::Done<Bytes>> waiting;
  };

  const std::shared_ptr<Budget> memory_;  // before the charges
  const size_t most_;
  Mutex mutex_;
  std::map<SliceRange, Cell> cells_ MR_GUARDED_BY(mutex_);
  std::deque<SliceRange> kept_ MR_GUARDED_BY(mutex_);  // those that are here, the oldest first
};

}  // namespace millrace::cluster
