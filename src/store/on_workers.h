// run_on: blocking work on a worker, answered by a callback.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/result.h"
#include "base/workers.h"
#include "store/objects.h"

namespace millrace::store {

// `done` is called in any case: with kUnavailable, at once, where too much waits or the workers have stopped.
template <typename T>
void run_on(Workers& workers, std::function<Result<T>()> work, Done<T> done) {
  // Shared, because a function that is refused is gone.
  auto kept = std::make_shared<Done<T>>(std::move(done));
  if (!workers.submit([work = std::move(work), kept] { (*kept)(work()); }))
    (*kept)(make_error(Code::kUnavailable, "too many calls are waiting for the drives"));
}

}  // namespace millrace::store
