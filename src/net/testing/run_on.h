// Runs one task on a loop and gives its result.
#pragma once

#include <optional>
#include <utility>

#include "net/loop.h"
#include "net/task.h"

namespace millrace::testing {

template <typename T>
net::Task<void> keep_result(net::Task<T> task, std::optional<T>* into, net::Loop* loop) {
  T value = co_await task;
  into->emplace(std::move(value));
  loop->stop();
}

template <typename T>
T run_on(net::Loop& loop, net::Task<T> task) {
  std::optional<T> result;
  loop.spawn(keep_result(std::move(task), &result, &loop));
  loop.run();
  return std::move(*result);
}

}  // namespace millrace::testing
