// Whole stretches while there is plenty, short ones after that.
#include "cluster/read_allotment.h"

#include <utility>

namespace millrace::cluster {

void ReadAllotment::when_allotted(store::Done<void> then) {
  const bool scarce = is_scarce();
  {
    const MutexLock lock(mutex_);
    if (charge_.bytes() > 0) {
      if (!scarce) static_cast<void>(charge_.try_grow(*budget_, kWholeBytes));
    } else {
      waiting_.push_back(std::exchange(then, nullptr));
      if (std::exchange(asked_, true)) return;
    }
  }
  if (then) return then({});
  const auto granted = [self = shared_from_this()](Charge charge) { self->hear(std::move(charge)); };
  Status asked = budget_->take_later(scarce ? kShortBytes : kWholeBytes, granted);
  if (!asked) hear(asked.take_error());
}

void ReadAllotment::hear(Result<Charge> charge) {
  std::vector<store::Done<void>> waiting;
  {
    const MutexLock lock(mutex_);
    asked_ = false;
    waiting.swap(waiting_);
    if (charge) charge_ = charge.take();
  }
  for (const store::Done<void>& then : waiting) then(charge ? Status() : Status(charge.error().copy()));
}

uint64_t ReadAllotment::bytes() const {
  const MutexLock lock(mutex_);
  return charge_.bytes();
}

Charge ReadAllotment::take_ahead(uint64_t bytes) {
  Charge charge;
  if (!is_scarce()) static_cast<void>(charge.try_grow(*budget_, bytes));
  return charge;
}

}  // namespace millrace::cluster
