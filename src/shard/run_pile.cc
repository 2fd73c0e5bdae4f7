// Implements RunPile: spills arenas, and merges runs when there are too many.
#include "shard/run_pile.h"

#include <algorithm>
#include <utility>

#include "base/mutex.h"

namespace millrace::shard {

namespace {

constexpr size_t kRunBuffer = 256 << 10;
// Each run is an open file; systems allow a thousand.
constexpr size_t kMostRuns = 512;
constexpr size_t kSmallRunBuffer = 64 << 10;

}  // namespace

Status RunPile::add(Arena& arena, const RunRecord& record) {
  if (arena.add(record)) return {};
  MR_TRY(spill(arena));
  if (arena.add(record)) return {};
  RunWriter writer = MR_TRY(RunWriter::create(options_.temporary_directory));
  MR_TRY(writer.add(record));
  MR_TRY(keep_run(writer));
  return merge_many_runs();
}

void RunPile::keep(Arena arena) {
  if (arena.empty()) return;
  arena.sort(options_.direction);
  const MutexLock lock(mutex_);
  kept_.push_back(std::move(arena));
}

uint64_t RunPile::runs() const {
  const MutexLock lock(mutex_);
  return runs_;
}

uint64_t RunPile::spilled_bytes() const {
  const MutexLock lock(mutex_);
  return spilled_bytes_;
}

bool RunPile::has_spilled() const {
  const MutexLock lock(mutex_);
  return !spilled_.empty();
}

Result<std::vector<std::unique_ptr<RunCursor>>> RunPile::open() {
  // The merge needs the memory of the arenas for its buffers, unless all of it is in the arenas.
  if (has_spilled()) {
    for (Arena& arena : take_kept()) MR_TRY(spill(arena));
    MR_TRY(reduce_runs());
  }
  const MutexLock lock(mutex_);
  std::vector<std::unique_ptr<RunCursor>> runs;
  for (const Arena& arena : kept_) runs.push_back(arena.cursor());
  for (const File& file : spilled_) runs.push_back(read_run(file, kRunBuffer));
  return runs;
}

std::deque<Arena> RunPile::take_kept() {
  const MutexLock lock(mutex_);
  return std::exchange(kept_, {});
}

Status RunPile::spill(Arena& arena) {
  if (arena.empty()) return {};
  arena.sort(options_.direction);
  std::vector<std::unique_ptr<RunCursor>> one;
  one.push_back(arena.cursor());
  MR_TRY(write_run(std::move(one)));
  arena.clear();
  return merge_many_runs();
}

// While reading goes on: too many runs become one.
Status RunPile::merge_many_runs() {
  std::deque<File> many;
  {
    const MutexLock lock(mutex_);
    if (spilled_.size() < kMostRuns) return {};
    many.swap(spilled_);
  }
  std::vector<std::unique_ptr<RunCursor>> cursors;
  for (const File& run : many) cursors.push_back(read_run(run, kSmallRunBuffer));
  return write_run(std::move(cursors));
}

Status RunPile::write_run(std::vector<std::unique_ptr<RunCursor>> from) {
  RunWriter writer = MR_TRY(RunWriter::create(options_.temporary_directory));
  MR_TRY(merge_runs(std::move(from), options_.direction,
                    [&](const RunRecord& record) { return writer.add(record); }));
  return keep_run(writer);
}

Status RunPile::keep_run(RunWriter& writer) {
  File file = MR_TRY(writer.finish());
  const MutexLock lock(mutex_);
  spilled_.push_back(std::move(file));
  runs_ += 1;
  spilled_bytes_ += writer.bytes();
  return {};
}

// So many of the oldest runs; none where there are no more than that.
std::deque<File> RunPile::take_surplus(size_t most) {
  const MutexLock lock(mutex_);
  std::deque<File> oldest;
  while (spilled_.size() + oldest.size() > most && oldest.size() < most) {
    oldest.push_back(std::move(spilled_.front()));
    spilled_.pop_front();
  }
  return oldest;
}

// More runs than buffers fit into memory are merged to fewer, longer ones first.
Status RunPile::reduce_runs() {
  const size_t most = std::max<size_t>(2, options_.memory / 2 / kRunBuffer);
  for (std::deque<File> group = take_surplus(most); !group.empty(); group = take_surplus(most)) {
    std::vector<std::unique_ptr<RunCursor>> cursors;
    for (const File& run : group) cursors.push_back(read_run(run, kRunBuffer));
    MR_TRY(write_run(std::move(cursors)));
  }
  return {};
}

}  // namespace millrace::shard
