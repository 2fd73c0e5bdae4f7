// eventually: waits for something that other threads and processes bring about.
//
// The limit only ends a test that would fail anyway; it is far above what a loaded machine needs.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace millrace::testing {

inline bool eventually(const std::function<bool()>& met) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  while (!met()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace millrace::testing
