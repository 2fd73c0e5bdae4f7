// Implements Budget, Charge and Buffer.
#include "base/buffer.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/mutex.h"
#include "base/units.h"

namespace millrace {

Charge::Charge(Charge&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Charge& Charge::operator=(Charge&& other) noexcept {
  // What was held goes now, not whenever `other` does: somebody may be waiting for it.
  Charge taken(std::move(other));
  std::swap(budget_, taken.budget_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

Charge::~Charge() {
  if (budget_ != nullptr) budget_->give_back(bytes_);
}

Budget::~Budget() {
  MR_ASSERT(used_ == 0, used_);
}

bool Charge::try_grow(Budget& budget, uint64_t bytes) {
  MR_ASSERT(budget_ == nullptr || budget_ == &budget);
  if (bytes <= bytes_) return true;
  if (!budget.try_add(bytes - bytes_)) return false;
  budget_ = &budget;
  bytes_ = bytes;
  return true;
}

void Charge::shrink(uint64_t bytes) {
  if (bytes >= bytes_) return;
  budget_->give_back(bytes_ - bytes);
  bytes_ = bytes;
}

Status Budget::check_possible(uint64_t bytes) const {
  if (bytes <= limit_) return {};
  return make_error(Code::kTooLarge, "needs {} at once, the memory limit is {}", format_bytes(bytes),
                    format_bytes(limit_));
}

Result<Charge> Budget::take(uint64_t bytes) {
  MR_TRY(check_possible(bytes));
  UniqueLock lock(mutex_);
  freed_.wait(lock, [&]() MR_REQUIRES(mutex_) { return limit_ - used_ >= bytes; });
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return Charge(*this, bytes);
}

bool Budget::try_add(uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (limit_ - used_ < bytes || !waiting_.empty()) return false;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return true;
}

Status Budget::take_later(uint64_t bytes, std::function<void(Charge)> granted) {
  MR_TRY(check_possible(bytes));
  {
    const MutexLock lock(mutex_);
    if (limit_ - used_ < bytes || !waiting_.empty()) {
      if (waiting_.size() >= kMostWaiting)
        return make_error(Code::kUnavailable, "{} requests wait for memory already", waiting_.size());
      waiting_.push_back({bytes, std::move(granted)});
      return {};
    }
    used_ += bytes;
    peak_ = std::max(peak_, used_);
  }
  granted(Charge(*this, bytes));
  return {};
}

uint64_t Budget::used() const {
  const MutexLock lock(mutex_);
  return used_;
}

uint64_t Budget::peak() const {
  const MutexLock lock(mutex_);
  return peak_;
}

uint64_t Budget::take_peak() {
  const MutexLock lock(mutex_);
  return std::exchange(peak_, used_);
}

void Budget::give_back(uint64_t bytes) {
  std::deque<Waiting> granted;
  {
    const MutexLock lock(mutex_);
    MR_ASSERT(used_ >= bytes, used_, bytes);
    used_ -= bytes;
    while (!waiting_.empty() && limit_ - used_ >= waiting_.front().bytes) {
      used_ += waiting_.front().bytes;
      granted.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }
  freed_.notify_all();
  for (Waiting& one : granted) one.granted(Charge(*this, one.bytes));
}

Result<Buffer> Buffer::make(Budget& budget, size_t capacity) {
  constexpr size_t kAlignment = 64;
  Buffer buffer;
  const size_t aligned = std::max(capacity, (capacity + kAlignment - 1) / kAlignment * kAlignment);
  buffer.charge_ = MR_TRY(budget.take(aligned));
  buffer.memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, aligned)));
  if (!buffer.memory_) {
    return make_error(Code::kTooLarge, "the system has no {} of memory left", format_bytes(capacity));
  }
  return buffer;
}

void Buffer::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

}  // namespace millrace
