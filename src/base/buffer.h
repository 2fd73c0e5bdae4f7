// Budget, Charge and Buffer: memory that counts against a hard limit.
//
// A Budget is the byte limit of one job. Whoever wants memory takes a Charge first and gives it back by
// destroying it; take() waits until others give back. Buffer is 64-byte aligned memory that carries its
// own Charge. Whoever must not wait asks with Charge::try_grow(), or is called back by take_later(). Budget
// is thread-safe and outlives its charges; a Buffer belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "base/mutex.h"
#include "base/result.h"

namespace millrace {

class Budget;

class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept;
  Charge& operator=(Charge&& other) noexcept;
  ~Charge();

  uint64_t bytes() const { return bytes_; }
  // Makes it at least this large, where the budget has that now; false: it is as it was. An empty one becomes
  // one of this budget.
  bool try_grow(Budget& budget, uint64_t bytes);
  // Gives back what is above this.
  void shrink(uint64_t bytes);

 private:
  friend class Budget;
  Charge(Budget& budget, uint64_t bytes) : budget_(&budget), bytes_(bytes) {}

  Budget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

class Budget {
 public:
  explicit Budget(uint64_t limit) : limit_(limit) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
  ~Budget();

  // Waits until the bytes are free. An amount that could never be free is an error at once.
  Result<Charge> take(uint64_t bytes);
  // Calls `granted` once the bytes are free: at once on this thread, or later on the thread that gave them
  // back; in the order of asking. kTooLarge as in take(); kUnavailable where too many wait already.
  static constexpr size_t kMostWaiting = 1024;
  Status take_later(uint64_t bytes, std::function<void(Charge)> granted);

  uint64_t limit() const { return limit_; }
  uint64_t used() const;
  uint64_t peak() const;
  // The peak since the last call.
  uint64_t take_peak();

 private:
  friend class Charge;
  void give_back(uint64_t bytes);
  bool try_add(uint64_t bytes);
  Status check_possible(uint64_t bytes) const;

  struct Waiting {
    uint64_t bytes = 0;
    std::function<void(Charge)> granted;
  };
  const uint64_t limit_;
  mutable Mutex mutex_;
  ConditionVariable freed_;
  uint64_t used_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t peak_ MR_GUARDED_BY(mutex_) = 0;
  std::deque<Waiting> waiting_ MR_GUARDED_BY(mutex_);  // of take_later
};

class Buffer {
 public:
  Buffer() = default;
  // Memory is reserved, not touched: pages appear as they are written.
  static Result<Buffer> make(Budget& budget, size_t capacity);

  std::byte* bytes() { return memory_.get(); }
  const std::byte* bytes() const { return memory_.get(); }
  size_t capacity() const { return charge_.bytes(); }
  std::span<std::byte> span() { return {memory_.get(), capacity()}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  Charge charge_;  // before the memory: given back only when that is free
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace millrace
