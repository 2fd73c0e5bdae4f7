// Budget, Charge and Buffer: memory that counts against a hard limit.
//
// A Budget is the byte limit of one job. Whoever wants memory takes a Charge first and gives it back by
// destroying it; take() waits until others give back. Buffer is 64-byte aligned memory that carries its
// own Charge. Budget is thread-safe and outlives its charges; a Buffer belongs to one thread at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

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

  uint64_t limit() const { return limit_; }
  uint64_t used() const;
  uint64_t peak() const;

 private:
  friend class Charge;
  void give_back(uint64_t bytes);

  const uint64_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  uint64_t used_ = 0;  // guarded by mutex_
  uint64_t peak_ = 0;  // guarded by mutex_
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
