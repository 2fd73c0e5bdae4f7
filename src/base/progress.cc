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
    : progress_(progress), words_(std::move(words)), is_shown_(isatty(STDERR_FILENO) == 1) {
  if (is_shown_) drawing_.start(std::chrono::milliseconds(200), [this] { draw(); });
}

ProgressBar::~ProgressBar() {
  drawing_.stop();
  if (is_shown_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::draw() const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begun_;
  // What is done at once is not worth a line.
  if (elapsed < std::chrono::milliseconds(100)) return;
  fmt::print(stderr, "\r\x1b[K{}", progress_line(progress_, words_, elapsed.count()));
  std::fflush(stderr);
}

}  // namespace millrace
