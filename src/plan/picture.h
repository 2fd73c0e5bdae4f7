// The path as a picture of 16 by 9: left to right, as wide as the capacity, filled as far as it flows. What
// keeps GPUs waiting is red; GPUs that are busy all the time are the goal and green.
#pragma once

#include <string>
#include <vector>

#include "plan/check.h"

namespace millrace::plan {

// How much flows from one resource straight to another.
struct Ribbon {
  size_t from = 0;
  size_t to = 0;
  Rational samples_per_second;
};

std::vector<Ribbon> ribbons(const Check& check);

// Which column a resource stands in; columns are numbered from 0 without gaps.
std::vector<size_t> columns(const Check& check);

std::string flow_picture(const std::string& title, const Check& check);
// For terminals, `width` cells wide.
std::string flow_text(const std::string& title, const Check& check, size_t width);

}  // namespace millrace::plan
