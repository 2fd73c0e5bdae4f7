// Loader: the batches of one rank, one after the other, made by threads that run ahead.
//
//   planner ─► fetchers ─► workers (untar, decode, augment, collate) ─► next()
//
// One planner thread decides what comes next and asks for bytes; fetch threads bring them; workers fill the
// slots of the earliest unfinished batches. How far each may run ahead is bounded in bytes, so that all
// memory together stays within the recipe's. next() gives batches in order; a failure comes at the batch it
// belongs to. One consumer; stop() may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "loader/assemble.h"
#include "loader/batch.h"
#include "loader/cache.h"
#include "loader/catalogue.h"
#include "loader/fetch.h"
#include "loader/keep.h"
#include "loader/meters.h"
#include "loader/plan.h"
#include "loader/recipe.h"
#include "loader/trace.h"

namespace millrace::loader {

struct Start {
  uint64_t epoch = 0;
  uint64_t batch = 0;   // the first to come, in its epoch
  uint64_t epochs = 1;  // how many, the first counted
  uint64_t rank = 0;
  uint64_t world = 1;
  uint64_t step = 1;  // only every step-th batch, for whoever shares them out
};

// What may be shared with other loaders; each may be null.
struct Companions {
  std::shared_ptr<PixelKeep> keep;  // where decoded images stay
  std::shared_ptr<Trace> trace;
};

class Loader {
 public:
  // Batches that are being filled or wait for the consumer; the one it works on is its own.
  static constexpr size_t kBatchesUnderWay = 3;

  static Result<std::unique_ptr<Loader>> open(std::shared_ptr<const Catalogue> catalogue, Recipe recipe,
                                              const Start& start, Companions companions = {});
  ~Loader();

  // Whether next() has an answer within this time.
  bool wait(uint64_t ms);
  // The next batch; null at the end. After an error there is nothing more.
  Result<std::shared_ptr<Batch>> next();
  // Ends the threads; a waiting next() returns an error.
  void stop();

  const Recipe& recipe() const { return recipe_; }
  const Catalogue& catalogue() const { return *catalogue_; }
  const Meters& meters() const { return meters_; }
  // What the consumer's own functions took for a batch: counted beside the stages.
  void note_python(uint64_t ns) {
    ++meters_.python.count;
    meters_.python.busy_ns += ns;
  }
  const Start& start() const { return start_; }
  unsigned threads() const { return threads_; }
  unsigned fetch_threads() const { return fetch_threads_; }
  bool by_sample() const { return by_sample_; }
  uint64_t memory_peak() const { return pool_->peak(); }
  uint64_t elapsed_ns() const { return steady_ns() - begun_ns_; }
  std::vector<Fault> faults() const;

 private:
  Loader(std::shared_ptr<const Catalogue> catalogue, Recipe recipe, const Start& start,
         Companions companions);
  bool at_end() const MR_REQUIRES(mutex_);
  bool has_batch() const MR_REQUIRES(mutex_) {
    return !under_way_.empty() && under_way_.front().finished.has_value();
  }
  bool has_answer() const MR_REQUIRES(mutex_) { return stopped_ || has_failed_ || at_end() || has_batch(); }
  bool finds_room_alone() const MR_REQUIRES(mutex_);
  bool fits(uint64_t more) const { return pool_->committed() + more <= recipe_.memory; }
  void wait_for_work(UniqueLock& lock) MR_REQUIRES(mutex_);
  void wake_all();
  void start_threads();
  std::unique_ptr<BatchSource> open_epoch(uint64_t epoch);
  void plan();
  void work();
  void within_memory(const std::function<void()>& run);
  std::shared_ptr<Assembly> take_assembly();
  uint64_t batch_bytes(const BatchPlan& plan) const;

  const std::shared_ptr<const Catalogue> catalogue_;
  const Recipe recipe_;
  const Start start_;
  const Companions companions_;
  const uint64_t begun_ns_ = steady_ns();
  Meters meters_;
  const std::shared_ptr<MemoryPool> pool_;
  std::unique_ptr<BlockCache> cache_;
  std::unique_ptr<Filling> filling_;
  std::unique_ptr<Fetcher> fetcher_;
  std::atomic<bool> by_sample_ = false;  // as the planner of the latest epoch chose
  unsigned threads_ = 0;
  unsigned fetch_threads_ = 0;

  struct Slot {
    std::shared_ptr<Assembly> assembly;  // until it is finished
    std::optional<Finished> finished;    // made by whoever filled the last slot: next() only takes it
  };
  mutable Mutex mutex_;
  // Who is woken when: each change wakes only those whom it concerns, and the consumer one thread at most:
  // waking costs it some 10 us, so where its steps are long a worker that waits for room looks by itself.
  ConditionVariable demand_;  // the planner: more may be planned
  ConditionVariable work_;    // the workers: something was planned, or a batch was taken
  ConditionVariable ready_;   // the consumer: the next batch is complete, or there is none
  std::deque<BatchPlan> planned_ MR_GUARDED_BY(mutex_);  // waiting for memory to fill
  std::deque<Slot> under_way_ MR_GUARDED_BY(mutex_);     // in order; the front goes to the consumer next
  uint64_t planned_bytes_ MR_GUARDED_BY(mutex_) = 0;     // encoded bytes of both
  bool all_planned_ MR_GUARDED_BY(mutex_) = false;
  // From files nothing is fetched ahead before the first batch has all it needs: it would only have to share
  // the processor. From a store the way is long, and what comes later is asked for at once.
  bool is_warm_ MR_GUARDED_BY(mutex_) = false;
  bool has_begun_ MR_GUARDED_BY(mutex_) = false;  // with the first batch
  std::atomic<bool> stopped_ = false;  // set with mutex_; workers look at it between samples without
  bool has_failed_ MR_GUARDED_BY(mutex_) = false;
  std::optional<Error> plan_failure_ MR_GUARDED_BY(mutex_);  // comes behind all that was planned before
  std::vector<Fault> faults_ MR_GUARDED_BY(mutex_);
  uint64_t taken_ns_ MR_GUARDED_BY(mutex_) = begun_ns_;  // when the consumer took the last batch
  uint64_t step_ns_ MR_GUARDED_BY(mutex_) = 0;           // from the batch before to that
  std::optional<uint64_t> lookout_ns_
      MR_GUARDED_BY(mutex_);  // how soon a worker that waits for room looks; none: nobody does

  Mutex joining_;  // whoever stops second waits for the first
  std::vector<std::jthread> workers_ MR_GUARDED_BY(joining_);
  std::jthread planner_ MR_GUARDED_BY(joining_);
};

}  // namespace millrace::loader
