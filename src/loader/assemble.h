// Assembly: a planned batch on its way to a finished one: which slots are taken, filled and failed.
//
// Threads take runs of slots in order and fill them wherever they finish; the one that fills the last slot
// closes the batch. A failed sample is left out, replaced or fails the batch, as the recipe says. Thread-safe
// after prepare().
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "decode/transform.h"
#include "loader/batch.h"
#include "loader/keep.h"
#include "loader/meters.h"
#include "loader/plan.h"
#include "loader/recipe.h"
#include "tar/sample.h"

namespace millrace::loader {

// A sample that could not be used.
struct Fault {
  std::string shard;
  std::string what;
  std::string_view stage;  // fetch, untar or decode
  uint64_t epoch = 0;
  uint64_t batch = 0;
};

// A sample that fields come from: the element's own, or one of another data set that lends them.
struct SampleSource {
  const Shard* shard;
  uint64_t ordinal;  // among the shard's chosen samples
  const tar::Sample* sample;
};

// What one thread uses again for every sample.
class Scratch {
 public:
  decode::Workspace workspace;
  std::string unpacked;               // of a .gz member
  std::vector<SampleSource> sources;  // of the sample under way; its own first
  tar::SampleParser& parser(tar::KeyRule rule) {
    return rule == tar::KeyRule::kFirstDot ? first_dot_ : last_dot_;
  }

 private:
  tar::SampleParser first_dot_{tar::KeyRule::kFirstDot};
  tar::SampleParser last_dot_{tar::KeyRule::kLastDot};
};

// What every slot is filled with; made once, shared by the threads.
class Filling {
 public:
  // All outlive it. `keep` may be null.
  static Result<std::unique_ptr<Filling>> make(const Catalogue& catalogue, const Recipe& recipe,
                                               PixelKeep* keep, Meters& meters);

  const Recipe& recipe() const { return recipe_; }
  void note_run(uint64_t begun_ns) const {
    if (meters_.trace != nullptr) meters_.trace->add("fill slots", begun_ns, steady_ns());
  }
  const Catalogue& catalogue() const { return catalogue_; }

  // Memory for the batch's columns. What the index says of the samples decides how much.
  void prepare(const BatchPlan& plan, Batch& batch) const;
  Status fill(const Element& element, size_t slot, Batch& batch, Scratch& scratch) const;

 private:
  Filling(const Catalogue& catalogue, const Recipe& recipe, PixelKeep* keep, Meters& meters)
      : catalogue_(catalogue), recipe_(recipe), keep_(keep), meters_(meters) {}
  Status fill_kept(const Element& element, size_t slot, Batch& batch, Scratch& scratch) const;
  uint64_t augmentation_key(const Element& element, const Batch& batch) const;
  // A slot on its way: the sample it gets, and what decides its augmentation.
  struct Target {
    const Element& element;
    Batch& batch;
    size_t slot;
    uint64_t key;
  };
  Status fill_column(size_t field, const Target& target, Scratch& scratch) const;
  Status fill_from(const tar::Field& found, const SampleSource& source, size_t field, const Target& target,
                   Scratch& scratch) const;
  Status fill_field(std::string_view stored, size_t field, Column& column, size_t slot) const;

  const Catalogue& catalogue_;
  const Recipe& recipe_;
  PixelKeep* const keep_;
  Meters& meters_;
  std::vector<std::optional<decode::Transform>> transforms_;  // by field; only images have one
};

// What became of a batch, once all its slots are filled or failed.
struct Finished {
  Result<std::shared_ptr<Batch>> batch;  // or why there is none
  std::vector<Fault> faults;             // what was skipped or replaced, or failed it
  uint64_t bytes = 0;                    // encoded, of its samples
};

class Assembly {
 public:
  Assembly(BatchPlan plan, std::shared_ptr<MemoryPool> pool)
      : plan_(std::move(plan)), batch_(std::make_shared<Batch>(std::move(pool))) {}

  void prepare(const Filling& filling) { filling.prepare(plan_, *batch_); }
  // Takes slots until none is left or it is told to stop. True for the one caller that made the batch
  // complete.
  bool work(const Filling& filling, Scratch& scratch, const std::atomic<bool>& stopped);
  bool has_slots() const { return next_.load(std::memory_order_relaxed) < plan_.elements.size(); }

  const BatchPlan& plan() const { return plan_; }
  // After completion, once.
  Finished finish(const Filling& filling);

 private:
  struct Failed {
    size_t slot;
    std::string member;  // where it is known
    Error error;
  };
  Result<std::shared_ptr<Batch>> settle(const Filling& filling, std::vector<Fault>& faults);

  BatchPlan plan_;
  std::shared_ptr<Batch> batch_;
  std::atomic<size_t> next_ = 0;
  std::atomic<size_t> done_ = 0;
  Mutex mutex_;
  std::vector<Failed> failed_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::loader
