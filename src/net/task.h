// Task<T>: a coroutine that gives a T. It runs when awaited, on the loop's thread it was spawned on.
//
// Frames come from a per-thread list of recycled blocks: a request makes a dozen of them. Spawned tasks
// belong to their Loop (net/loop.h), which destroys what has not finished when it goes away.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace millrace::net {

// Blocks of coroutine frames, kept by size for the next one. Frames are freed on the thread that made them
// but for the very last, at shutdown; both ways the block only changes lists.
class FrameMemory {
 public:
  static void* take(size_t bytes) {
    const size_t slot = slot_of(bytes);
    if (slot < kSlots && lists().free[slot] != nullptr) {
      Block* const block = lists().free[slot];
      lists().free[slot] = block->next;
      --lists().kept[slot];
      return block;
    }
    void* const made = std::malloc(slot < kSlots ? (slot + 1) * kStep : bytes);
    if (made == nullptr) throw std::bad_alloc();
    return made;
  }
  static void give(void* memory, size_t bytes) {
    const size_t slot = slot_of(bytes);
    if (slot >= kSlots || lists().kept[slot] >= kMostKept) {
      std::free(memory);
      return;
    }
    auto* const block = static_cast<Block*>(memory);
    block->next = lists().free[slot];
    lists().free[slot] = block;
    ++lists().kept[slot];
  }

 private:
  static constexpr size_t kStep = 128;
  static constexpr size_t kSlots = 32;  // frames up to 4 KiB
  static constexpr unsigned kMostKept = 256;
  struct Block {
    Block* next;
  };
  struct Lists {
    std::array<Block*, kSlots> free{};
    std::array<unsigned, kSlots> kept{};
    ~Lists() {
      for (Block* block : free) {
        while (block != nullptr) std::free(std::exchange(block, block->next));
      }
    }
  };
  static size_t slot_of(size_t bytes) { return (bytes - 1) / kStep; }
  static Lists& lists() {
    thread_local Lists own;
    return own;
  }
};

struct PromiseBase {
  std::coroutine_handle<> continuation;
  std::exception_ptr failure;

  static void* operator new(size_t bytes) { return FrameMemory::take(bytes); }
  static void operator delete(void* memory, size_t bytes) { FrameMemory::give(memory, bytes); }

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct ToContinuation {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
      return done.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  ToContinuation final_suspend() noexcept { return {}; }
  void unhandled_exception() { failure = std::current_exception(); }
};

template <typename T>
class Task;

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object() { return Task<T>(std::coroutine_handle<Promise>::from_promise(*this)); }
  template <typename U>
  void return_value(U&& given) {
    value.emplace(std::forward<U>(given));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void take() {}
};

template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = Promise<T>;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
    handle_.promise().continuation = waiting;
    return handle_;
  }
  // Outside of loops: runs the task to its end in this call. Nothing in it may suspend.
  T run_now() {
    handle_.promise().continuation = std::noop_coroutine();
    handle_.resume();
    MR_ASSERT(handle_.done(), "a task without a loop waited");
    return await_resume();
  }
  T await_resume() {
    if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
    return handle_.promise().take();
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

}  // namespace millrace::net
