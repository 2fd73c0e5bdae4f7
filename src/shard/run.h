// Runs: ordered stretches of samples, in memory (Arena) or in a temporary file, and their merge.
//
// The parts of the external sort. A record is a sample's blocks, the bytes it is ordered by, and the place
// it came from, which breaks ties, so equal orders keep their places. Each part belongs to one thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/file.h"
#include "base/result.h"

namespace millrace::shard {

struct Place {
  uint64_t shard = 0;
  uint64_t ordinal = 0;
  auto operator<=>(const Place&) const = default;
};

struct RunRecord {
  std::string_view order;
  Place place;
  std::string_view blocks;
};

enum class Direction { kRising, kFalling };

bool comes_before(const RunRecord& a, const RunRecord& b, Direction direction);

// Records one after the other, in order. A record is valid until the next call.
class RunCursor {
 public:
  virtual ~RunCursor() = default;
  virtual Result<const RunRecord*> next() = 0;  // null at the end
};

class Arena {
 public:
  static Result<Arena> make(Budget& budget, uint64_t bytes);

  // False where it does not fit any more.
  [[nodiscard]] bool add(const RunRecord& record);
  void sort(Direction direction);
  void clear();
  bool empty() const { return entries_.empty(); }

  // The arena outlives the cursor and stays as it is.
  std::unique_ptr<RunCursor> cursor() const;

 private:
  struct Entry {
    uint64_t order_start;  // the order's first eight bytes, big-endian: most comparisons end here
    uint64_t at;
  };
  class Cursor;

  Buffer memory_;
  uint64_t used_ = 0;
  std::vector<Entry> entries_;
};

class RunWriter {
 public:
  static Result<RunWriter> create(const std::string& directory);
  Status add(const RunRecord& record);
  Result<File> finish();  // the run, to be read from its start

  uint64_t bytes() const { return bytes_; }

 private:
  explicit RunWriter(File file) : file_(std::move(file)) {}

  File file_;
  std::string gathered_;
  uint64_t bytes_ = 0;
};

std::unique_ptr<RunCursor> read_run(const File& run, size_t buffer_bytes);

// All of them as one, in order.
std::unique_ptr<RunCursor> make_merge(std::vector<std::unique_ptr<RunCursor>> runs, Direction direction);
Status merge_runs(std::vector<std::unique_ptr<RunCursor>> runs, Direction direction,
                  const std::function<Status(const RunRecord&)>& emit);

}  // namespace millrace::shard
