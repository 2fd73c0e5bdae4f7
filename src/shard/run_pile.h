// RunPile: records gathered in arenas, spilled as runs where memory is full, and read back in order.
//
// The memory of the external sort. Threads add to arenas of their own; spilling and keeping is shared. When
// all is added, open() gives cursors over everything, as often as it is called. Any thread may add; one
// opens.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "shard/run.h"

namespace millrace::shard {

struct RunPileOptions {
  Direction direction = Direction::kRising;
  uint64_t memory = 0;
  std::string temporary_directory = ".";
};

class RunPile {
 public:
  explicit RunPile(RunPileOptions options) : options_(std::move(options)), budget_(options_.memory) {}

  Result<Arena> make_arena(uint64_t bytes) { return Arena::make(budget_, bytes); }
  // A full arena becomes a run; a record that no arena can hold becomes one by itself.
  Status add(Arena& arena, const RunRecord& record);
  // What an arena holds at the end.
  void keep(Arena arena);

  Result<std::vector<std::unique_ptr<RunCursor>>> open();

  uint64_t runs() const;  // written to disk; 0: everything fitted
  uint64_t spilled_bytes() const;

 private:
  Status spill(Arena& arena);
  Status merge_many_runs();
  Status write_run(std::vector<std::unique_ptr<RunCursor>> from);
  Status keep_run(RunWriter& writer);
  Status reduce_runs();
  bool has_spilled() const;
  std::deque<Arena> take_kept();
  std::deque<File> take_surplus(size_t most);

  const RunPileOptions options_;
  Budget budget_;
  mutable Mutex mutex_;
  std::deque<Arena> kept_ MR_GUARDED_BY(mutex_);
  std::deque<File> spilled_ MR_GUARDED_BY(mutex_);
  uint64_t runs_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t spilled_bytes_ MR_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::shard
