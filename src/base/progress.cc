// Draws progress on a terminal's standard error.
#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/units.h"

namespace millrace {

std::string progress_line(const Progress& progress, const ProgressWords& words, double seconds) {
  const double bytes = static_cast<double>(progress.bytes());
  const double rate = seconds > 0 ? bytes / seconds : 0;
  std::string line = words.what;
  const double expected = static_cast<double>(progress.expected_bytes());
  if (expected > 0) {
    constexpr int kWidth = 24;
    const double share = std::min(1.0, bytes / expected);
    const int full = static_cast<int>(share * kWidth);
    line += "  [" + std::string(full, '#');
    for (int i = full; i < kWidth; ++i) line += "·";
    line += fmt::format("]  {:3.0f} %", share * 100);
  }
  line += fmt::format("  {}  {}/s  {} {}", format_bytes(progress.bytes()),
                      format_bytes(static_cast<uint64_t>(rate)), format_count(progress.items()), words.items);
  if (expected > bytes && rate > 0) {
    const auto left = static_cast<uint64_t>((expected - bytes) / rate);
    line += fmt::format("  {}:{:02} left", left / 60, left % 60);
  }
  return line;
}

ProgressBar::ProgressBar(const Progress& progress, ProgressWords words)
    : progress_(progress), words_(std::move(words)) {
  if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { run(); });
}

ProgressBar::~ProgressBar() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  thread_.join();
  fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::run() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, std::chrono::milliseconds(200), [&] { return stop_; })) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    fmt::print(stderr, "\r\x1b[K{}", progress_line(progress_, words_, elapsed.count()));
    std::fflush(stderr);
  }
}

}  // namespace millrace
