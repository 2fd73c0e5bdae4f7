// Loader: the batches of one rank, one after the other, made by threads that run ahead.
//
//   planner ─► fetchers ─► workers (untar, decode, augment, collate) ─► next()
//
// One planner thread decides what comes next and asks for bytes; fetch threads bring them; workers fill the
// slots of the earliest unfinished batches. How far each may run ahead is bounded in bytes, so that all
// memory together stays within the recipe's. next() gives batches in order; a failure comes at the batch it
// belongs to. One consumer; stop() may be called from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

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
  bool at_end() const;  // with mutex_
  void wake_all();
  std::unique_ptr<BatchSource> open_epoch(uint64_t epoch);
  void plan();
  void work();
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
  bool by_sample_ = false;
  unsigned threads_ = 0;
  unsigned fetch_threads_ = 0;

  struct Slot {
    std::shared_ptr<Assembly> assembly;
    bool is_complete = false;
  };
  mutable std::mutex mutex_;
  // Who is woken when: each change wakes only those whom it concerns, and the consumer wakes one thread.
  std::condition_variable demand_;  // the planner: more may be planned
  std::condition_variable work_;    // the workers: something was planned, or a batch was taken
  std::condition_variable ready_;   // the consumer: the next batch is complete, or there is none
  std::deque<BatchPlan> planned_;   // guarded by mutex_, as all below; waiting for memory to fill
  std::deque<Slot> under_way_;      // in order; the front goes to the consumer next
  uint64_t planned_bytes_ = 0;      // encoded bytes of both
  bool all_planned_ = false;
  // From files nothing is fetched ahead before the first batch has all it needs: it would only have to share
  // the processor. From a store the way is long, and what comes later is asked for at once.
  bool is_warm_ = false;
  bool has_begun_ = false;  // with the first batch
  bool stopped_ = false;
  bool has_failed_ = false;
  std::optional<Error> plan_failure_;  // comes behind all that was planned before
  std::vector<Fault> faults_;

  std::mutex joining_;  // whoever stops second waits for the first
  std::vector<std::jthread> workers_;
  std::jthread planner_;
};

}  // namespace millrace::loader
