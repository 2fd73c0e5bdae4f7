// Curves as a picture: lines over epochs, drawn as SVG. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace millrace::exchange {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // rising in the first
};
struct Axes {
  std::string title;
  std::string x;
  std::string y;
};
// Every curve has its own colour and a name beside its last point; names do not cover each other.
std::string draw_curves(const std::vector<Curve>& curves, const Axes& axes);

}  // namespace millrace::exchange
