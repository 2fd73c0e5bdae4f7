// when_all and when_any: several tasks at once, on one loop's thread.
//
// Both begin all tasks, in order, and go on when all have ended: no task outlives the call. Where the caller
// is destroyed with its loop, the tasks go with it. An exception of a task is thrown when all have ended.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/result.h"
#include "net/cancellation.h"
#include "net/task.h"

namespace millrace::net {

// How many branches are still under way, and who goes on when none is.
struct Arrivals {
  size_t left = 0;
  std::coroutine_handle<> continuation;
  std::exception_ptr failure;

  std::coroutine_handle<> arrive() noexcept {
    if (--left == 0) return continuation;
    return std::noop_coroutine();
  }
};

// The outermost frame of one of the tasks.
class Branch {
 public:
  struct promise_type {
    Arrivals* arrivals = nullptr;
    static void* operator new(size_t bytes) { return FrameMemory::take(bytes); }
    static void operator delete(void* memory, size_t bytes) { FrameMemory::give(memory, bytes); }
    Branch get_return_object() { return Branch(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Arrive {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> done) noexcept {
        return done.promise().arrivals->arrive();
      }
      void await_resume() noexcept {}
    };
    Arrive final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { arrivals->failure = std::current_exception(); }
  };

  Branch(Branch&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Branch& operator=(Branch&&) = delete;
  ~Branch() {
    if (handle_) handle_.destroy();
  }
  void start(Arrivals& arrivals) {
    handle_.promise().arrivals = &arrivals;
    handle_.resume();
  }

 private:
  explicit Branch(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// Begins the branches and waits for the last of them.
struct Gather {
  std::vector<Branch>& branches;
  Arrivals& arrivals;
  bool await_ready() const noexcept { return branches.empty(); }
  bool await_suspend(std::coroutine_handle<> waiting) {
    arrivals.continuation = waiting;
    arrivals.left = branches.size() + 1;  // one for the starting itself: branches may end at once
    for (Branch& branch : branches) branch.start(arrivals);
    return --arrivals.left > 0;
  }
  void await_resume() const {
    if (arrivals.failure) std::rethrow_exception(arrivals.failure);
  }
};

template <typename T>
Branch fill_place(Task<T> task, std::optional<T>* into) {
  T value = co_await task;
  into->emplace(std::move(value));
}

// The results in the order of the tasks.
template <typename T>
Task<std::vector<T>> when_all(std::vector<Task<T>> tasks) {
  std::vector<std::optional<T>> places(tasks.size());
  std::vector<Branch> branches;
  branches.reserve(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) branches.push_back(fill_place(std::move(tasks[i]), &places[i]));
  Arrivals arrivals;
  co_await Gather(branches, arrivals);
  std::vector<T> results;
  results.reserve(places.size());
  for (std::optional<T>& place : places) results.push_back(std::move(*place));
  co_return results;
}

template <typename T>
Branch take_if_first(Task<Result<T>> task, std::optional<Result<T>>* first, Cancellation* scope) {
  Result<T> result = co_await task;
  const bool is_better = !first->has_value() || (result.has_value() && !(*first)->has_value());
  if (!is_better) co_return;
  const bool succeeded = result.has_value();
  first->emplace(std::move(result));
  // Ends the others. They find their place taken.
  if (succeeded) scope->cancel();
}

// The first success; where there is none, the first error. `scope` is the tasks' own: the first success
// cancels it, and the call returns when the others have seen that.
template <typename T>
Task<Result<T>> when_any(std::vector<Task<Result<T>>> tasks, Cancellation& scope) {
  MR_ASSERT(!tasks.empty());
  std::optional<Result<T>> first;
  std::vector<Branch> branches;
  branches.reserve(tasks.size());
  for (Task<Result<T>>& task : tasks) branches.push_back(take_if_first(std::move(task), &first, &scope));
  Arrivals arrivals;
  co_await Gather(branches, arrivals);
  co_return std::move(*first);
}

}  // namespace millrace::net
