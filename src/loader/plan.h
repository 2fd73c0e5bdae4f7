// Planner: the batches of one rank through one epoch: which samples, in which chunks. One thread.
//
// A data set of one part goes through its order. A mixture is a stream without end in which each part goes
// through epochs of its own; its epoch is as many whole batches as all samples together would fill.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "loader/catalogue.h"
#include "loader/mixture.h"
#include "loader/part_plan.h"
#include "loader/recipe.h"
#include "loader/shelf.h"

namespace millrace::loader {

struct BatchPlan {
  uint64_t epoch = 0;
  uint64_t number = 0;
  std::vector<Element> elements;
  uint64_t bytes = 0;
};

// Batches in an epoch: the same for every rank.
uint64_t count_batches(const Catalogue& catalogue, const Recipe& recipe);

// Where a loader's batches come from.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Nothing at the end of the epoch.
  virtual Result<std::optional<BatchPlan>> next() = 0;
};

class Planner final : public BatchSource {
 public:
  struct Place {
    uint64_t epoch = 0;
    uint64_t batch = 0;
    uint64_t rank = 0;
    uint64_t world = 1;
    uint64_t step = 1;  // from one batch to the next
  };
  // The recipe has been checked.
  Planner(const Catalogue& catalogue, const Recipe& recipe, Place place, Supply supply);

  Result<std::optional<BatchPlan>> next() override;
  bool by_sample() const { return reading_.by_sample; }

 private:
  // A part of a mixture and where it is in its own epochs.
  struct Part {
    std::unique_ptr<PartPlan> plan;
    uint64_t epoch = 0;
  };
  void take_from(size_t part, Slice places, std::vector<Element>& into);
  void take_bucketed(Slice mine, std::vector<Element>& into);
  void arrange_buckets(uint64_t pool);
  void take_mixed(Slice mine, std::vector<Element>& into);
  PartPlan& part_in_epoch(size_t part, uint64_t epoch);

  const Catalogue& catalogue_;
  const Recipe& recipe_;
  const Place place_;
  const Supply supply_;
  const Reading reading_;
  std::optional<Mixture> mixture_;
  const uint64_t batches_;
  uint64_t batch_;
  std::vector<Part> parts_;
  // Of the pool of batches under way, sorted into buckets.
  Shelf bucket_shelf_;
  uint64_t pool_ = UINT64_MAX;
  std::vector<std::vector<SampleRef>> buckets_;
  Shelf column_shelf_;
};

}  // namespace millrace::loader
