// Runs one task on a loop and gives its result.
#pragma once

#include <optional>
#include <utility>

#include "net/loop.h"
#include "net/task.h"

namespace millrace::net::testing {

template <typename T>
Task<void> keep_result(Task<T> task, std::optional<T>* into, Loop* loop) {
  T value = co_await task;
  into->emplace(std::move(value));
  loop->stop();
}

template <typename T>
T run_on(Loop& loop, Task<T> task) {
  std::optional<T> result;
  loop.spawn(keep_result(std::move(task), &result, &loop));
  loop.run();
  return std::move(*result);
}

}  // namespace millrace::net::testing
