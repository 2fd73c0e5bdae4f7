// A cell is on its way, then kept, then forgotten for a newer one.
#include "cluster/kept_cells.h"

#include <utility>

namespace millrace::cluster {

KeptCells::Coming KeptCells::wait(const SliceRange& range, store::Done<Bytes> done) {
  std::optional<Bytes> kept;
  {
    const MutexLock lock(mutex_);
    const auto [place, is_new] = cells_.try_emplace(range);
    if (!place->second.bytes) {
      place->second.waiting.push_back(std::move(done));
      return is_new ? Coming::kToBeAsked : Coming::kYes;
    }
    kept = place->second.bytes;
  }
  done(std::move(*kept));
  return Coming::kYes;
}

void KeptCells::arrive(const SliceRange& range, const Result<Bytes>& bytes) {
  std::vector<store::Done<Bytes>> waiting;
  {
    const MutexLock lock(mutex_);
    const auto place = cells_.find(range);
    waiting = std::exchange(place->second.waiting, {});
    if (bytes && place->second.charge.try_grow(*memory_, bytes->size())) {
      place->second.bytes = *bytes;
      kept_.push_back(range);
    } else {
      cells_.erase(place);
    }
    if (kept_.size() > most_) {
      cells_.erase(kept_.front());
      kept_.pop_front();
    }
  }
  for (const store::Done<Bytes>& one : waiting) one(bytes ? Result<Bytes>(*bytes) : bytes.error().copy());
}

}  // namespace millrace::cluster
