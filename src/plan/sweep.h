// sweep: checks the same plan for several values of one setting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/check.h"

namespace millrace::plan {

struct SweepPoint {
  std::string value;  // as it was set
  Rational samples_per_second;
  Rational delivered;
  Rational gpu_utilisation;
  Rational dollars;
  std::string limit;  // what limits
};

// "4..64:4", "1..16", "100MB/s,200MB/s,400MB/s". At most kMostPoints.
constexpr size_t kMostPoints = 1000;
Result<std::vector<std::string>> expand_values(std::string_view text);

Result<std::vector<SweepPoint>> sweep(const TomlDocument& document, const std::string& key,
                                      const std::vector<std::string>& values);

// Throughput and cost over the values, and where the bottleneck changes.
std::string sweep_picture(const std::string& title, const std::string& key,
                          const std::vector<SweepPoint>& points);

}  // namespace millrace::plan
