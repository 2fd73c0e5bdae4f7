// The timers of a loop, as a binary heap whose entries know their places.
#include "net/timer.h"

#include <utility>

#include "base/assert.h"

namespace millrace::net {

void Timer::arm(uint64_t at_us) {
  MR_ASSERT(heap_ != nullptr);
  if (is_armed()) {
    heap_->heap_[place_].at_us = at_us;
    heap_->sift_up(place_);
    heap_->sift_down(place_);
    return;
  }
  place_ = heap_->heap_.size();
  heap_->heap_.push_back({at_us, this});
  heap_->sift_up(place_);
}

void Timer::disarm() {
  if (is_armed()) heap_->remove(place_);
}

uint64_t Timer::armed_us() const {
  return is_armed() ? heap_->heap_[place_].at_us : UINT64_MAX;
}

void TimerHeap::fire(uint64_t now_us) {
  while (first_us() <= now_us) {
    Timer* const timer = heap_.front().timer;
    remove(0);
    timer->due();
  }
}

void TimerHeap::put(size_t place, Entry entry) {
  heap_[place] = entry;
  entry.timer->place_ = place;
}

void TimerHeap::sift_up(size_t place) {
  const Entry moving = heap_[place];
  while (place > 0) {
    const size_t above = (place - 1) / 2;
    if (heap_[above].at_us <= moving.at_us) break;
    put(place, heap_[above]);
    place = above;
  }
  put(place, moving);
}

void TimerHeap::sift_down(size_t place) {
  const Entry moving = heap_[place];
  while (true) {
    size_t below = 2 * place + 1;
    if (below >= heap_.size()) break;
    if (below + 1 < heap_.size() && heap_[below + 1].at_us < heap_[below].at_us) ++below;
    if (moving.at_us <= heap_[below].at_us) break;
    put(place, heap_[below]);
    place = below;
  }
  put(place, moving);
}

void TimerHeap::remove(size_t place) {
  heap_[place].timer->place_ = Timer::kNone;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (place == heap_.size()) return;
  put(place, last);
  sift_up(place);
  sift_down(last.timer->place_);
}

}  // namespace millrace::net
