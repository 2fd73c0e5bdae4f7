// ReadAllotment: what one reader of other nodes' bytes may hold, out of the node's budget for all of them.
//
// A reader has room for one stretch, from its first one on until it is gone: so it waits once, in the order
// of asking, and a reader that has begun never waits for memory again. While half of the budget is used, the
// stretches of new readers are short, so that many slow ones find room, and nobody reads ahead. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"
#include "store/objects.h"

namespace millrace::cluster {

class ReadAllotment : public std::enable_shared_from_this<ReadAllotment> {
 public:
  static constexpr uint64_t kWholeBytes = 1 << 20;
  static constexpr uint64_t kShortBytes = 64 << 10;

  explicit ReadAllotment(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}

  // Calls `then` once there is room for a stretch: at once where there is already. kUnavailable where too
  // many readers wait.
  void when_allotted(store::Done<void> then);
  // How long a stretch may be; 0 before the first one is allotted.
  uint64_t bytes() const;
  // For a stretch that is read ahead. An empty charge: there is no room for it now.
  Charge take_ahead(uint64_t bytes);

 private:
  bool is_scarce() const { return 2 * budget_->used() >= budget_->limit(); }
  void hear(Result<Charge> charge);

  const std::shared_ptr<Budget> budget_;  // before the charge
  mutable Mutex mutex_;
  Charge charge_ MR_GUARDED_BY(mutex_);
  bool asked_ MR_GUARDED_BY(mutex_) = false;
  std::vector<store::Done<void>> waiting_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::cluster
