// Assembly: a planned batch on its way to a finished one: which slots are taken, filled and failed.
//
// Threads take runs of slots in order and fill them wherever they finish; the one that fills the last slot
// closes the batch. A failed sample is left out, replaced or fails the batch, as the recipe says. Thread-safe
// after prepare().
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

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
  uint64_t epoch = 0;
  uint64_t batch = 0;
};

// What one thread uses again for every sample.
class Scratch {
 public:
  decode::Workspace workspace;
  std::string unpacked;  // of a .gz member
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
  Status fill_image(std::string_view encoded, size_t field, const Element& element, Column& column,
                    size_t slot, uint64_t key, decode::Workspace& workspace) const;
  Status fill_field(std::string_view stored, size_t field, Column& column, size_t slot) const;

  const Catalogue& catalogue_;
  const Recipe& recipe_;
  PixelKeep* const keep_;
  Meters& meters_;
  std::vector<std::optional<decode::Transform>> transforms_;  // by field; only images have one
};

class Assembly {
 public:
  Assembly(BatchPlan plan, std::shared_ptr<MemoryPool> pool)
      : plan_(std::move(plan)), batch_(std::make_shared<Batch>(std::move(pool))) {}

  void prepare(const Filling& filling) { filling.prepare(plan_, *batch_); }
  // Takes slots until none is left. True for the one caller that made the batch complete.
  bool work(const Filling& filling, Scratch& scratch);
  bool has_slots() const { return next_.load(std::memory_order_relaxed) < plan_.elements.size(); }

  const BatchPlan& plan() const { return plan_; }
  // After completion: the batch, or why it failed. `faults` gets what was skipped or replaced.
  Result<std::shared_ptr<Batch>> finish(const Filling& filling, std::vector<Fault>& faults);

 private:
  struct Failed {
    size_t slot;
    std::string member;  // where it is known
    Error error;
  };
  BatchPlan plan_;
  std::shared_ptr<Batch> batch_;
  std::atomic<size_t> next_ = 0;
  std::atomic<size_t> done_ = 0;
  std::mutex mutex_;
  std::vector<Failed> failed_;  // guarded by mutex_
};

}  // namespace millrace::loader
