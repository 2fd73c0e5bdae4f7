// Ticks at round numbers, lines, names at the right.
#include "exchange/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/svg.h"

namespace millrace::exchange {

namespace {

constexpr double kHeight = 480;
constexpr double kLeft = 70;
constexpr double kRight = 700;  // names follow
constexpr double kTop = 40;
constexpr double kBottom = 430;
// Told apart also by those who see few colours.
constexpr const char* kColours[] = {"#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9",
                                    "#e69f00", "#7f7f7f", "#882255", "#44aa99", "#999933", "#332288"};

double round_step(double span) {
  const double rough = span / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (rough <= step * power) return step * power;
  }
  return 10 * power;
}

struct Scale {
  double low = 0;
  double high = 1;
  double from = 0;
  double to = 1;
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

Scale scale_of(double low, double high, double from, double to) {
  if (!(high > low)) high = low + 1;
  const double step = round_step(high - low);
  return {std::floor(low / step) * step, std::ceil(high / step) * step, from, to};
}

void draw_axes(Svg& svg, const Scale& x, const Scale& y, const Axes& axes) {
  const double x_step = round_step(x.high - x.low);
  const double y_step = round_step(y.high - y.low);
  for (double value = y.low; value <= y.high + y_step / 2; value += y_step) {
    svg.add(fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
                        kLeft, y.at(value), kRight, y.at(value)));
    svg.text(kLeft - 6, y.at(value) + 4, fmt::format("{:.4g}", value), {12, "#222", Anchor::kEnd});
  }
  for (double value = x.low; value <= x.high + x_step / 2; value += x_step)
    svg.text(x.at(value), kBottom + 18, fmt::format("{:.4g}", value), {12, "#222", Anchor::kMiddle});
  svg.add(fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#333\"/>\n",
                      kLeft, kTop, kRight - kLeft, kBottom - kTop));
  svg.text(kLeft, 24, axes.title, {15, "#222", Anchor::kStart, true});
  svg.text(kLeft, kTop - 4, axes.y, {12, "#667"});
  svg.text((kLeft + kRight) / 2, kBottom + 38, axes.x, {12, "#667", Anchor::kMiddle});
}

struct Range {
  double low = 0;
  double high = 0;
};
using Coordinate = double std::pair<double, double>::*;

Range range_of(const std::vector<Curve>& curves, Coordinate coordinate) {
  std::optional<Range> range;
  for (const Curve& curve : curves) {
    for (const auto& point : curve.points) {
      const double value = point.*coordinate;
      if (!range) range = Range{value, value};
      range = Range{std::min(range->low, value), std::max(range->high, value)};
    }
  }
  return range.value_or(Range());
}

}  // namespace

std::string draw_curves(const std::vector<Curve>& curves, const Axes& axes) {
  const Range across = range_of(curves, &std::pair<double, double>::first);
  const Range up = range_of(curves, &std::pair<double, double>::second);
  const Scale x = scale_of(across.low, across.high, kLeft, kRight);
  const Scale y = scale_of(up.low, up.high, kBottom, kTop);
  Svg svg;
  draw_axes(svg, x, y, axes);
  std::vector<std::pair<double, size_t>> ends;
  for (size_t i = 0; i < curves.size(); ++i) {
    std::string points;
    for (const auto& [at, value] : curves[i].points)
      points += fmt::format("{:.1f},{:.1f} ", x.at(at), y.at(value));
    svg.add(fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n",
                        points, kColours[i % std::size(kColours)]));
    if (!curves[i].points.empty()) ends.emplace_back(y.at(curves[i].points.back().second), i);
  }
  std::ranges::sort(ends);
  double last = 0;
  double width = kRight;
  for (const auto& [height, i] : ends) {
    last = std::max(height, last + 14);
    svg.text(kRight + 8, last + 4, curves[i].name, {12, kColours[i % std::size(kColours)]});
    width = std::max(width, kRight + 8 + text_width(curves[i].name, 12));
  }
  return svg.finish(width + 20, std::max(kHeight, last + 20));
}

}  // namespace millrace::exchange
