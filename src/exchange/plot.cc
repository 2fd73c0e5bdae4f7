// Draws curves: ticks at round numbers, lines, names at the right.
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
constexpr double kRight = 700;
constexpr double kNames = 730;  // where names begin
constexpr double kTick = 6;
constexpr double kTop = 56;
constexpr double kBottom = 430;
// Told apart also by those who see few colours.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#000000", "#e69f00", "#56b4e9", "#882255"};
// Beyond the colours, lines differ by their dashes.
constexpr const char* kDashes[] = {"", "8 4", "2 3", "10 3 2 3"};
constexpr double kLabelStep = 15;

const char* colour_of(size_t curve) {
  return kColours[curve % std::size(kColours)];
}

std::string stroke_of(size_t curve) {
  const char* const dashes = kDashes[curve / std::size(kColours) % std::size(kDashes)];
  return *dashes == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes);
}

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
  svg.text(kLeft, kTop - 8, axes.y, {12, "#667"});
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

// Heights of the names: as near to the ends of their lines as they can be without covering each other. Names
// that crowd are moved up and down alike, the others stand beside their lines.
std::vector<double> spread(const std::vector<std::pair<double, size_t>>& ends) {
  struct Crowd {
    size_t names = 0;
    double wanted = 0;  // where its first name would stand, summed over its names
    double top() const { return wanted / static_cast<double>(names); }
    double bottom() const { return top() + kLabelStep * static_cast<double>(names); }
  };
  std::vector<Crowd> crowds;
  for (const auto& [height, curve] : ends) {
    crowds.push_back({1, height});
    while (crowds.size() > 1 && crowds[crowds.size() - 2].bottom() > crowds.back().top()) {
      const Crowd last = crowds.back();
      crowds.pop_back();
      Crowd& into = crowds.back();
      into.wanted += last.wanted - kLabelStep * static_cast<double>(into.names * last.names);
      into.names += last.names;
    }
  }
  std::vector<double> heights;
  for (const Crowd& crowd : crowds) {
    for (size_t i = 0; i < crowd.names; ++i)
      heights.push_back(crowd.top() + kLabelStep * static_cast<double>(i));
  }
  return heights;
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
    svg.add(fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n",
                        points, colour_of(i), stroke_of(i)));
    if (!curves[i].points.empty()) ends.emplace_back(y.at(curves[i].points.back().second), i);
  }
  std::ranges::sort(ends);
  const std::vector<double> labels = spread(ends);
  double width = kRight;
  for (size_t at = 0; at < ends.size(); ++at) {
    const size_t i = ends[at].second;
    const double tip = x.at(curves[i].points.back().first);
    // From the end of the line to its name, where the two are not side by side.
    svg.add(
        fmt::format("<path d=\"M{:.1f},{:.1f} L{:.1f},{:.1f} h{:.0f}\" fill=\"none\" stroke=\"{}\" "
                    "stroke-width=\"0.8\"/>\n",
                    tip, ends[at].first, kNames - kTick, labels[at], kTick, colour_of(i)));
    svg.text(kNames + 4, labels[at] + 4, curves[i].name, {12, colour_of(i)});
    width = std::max(width, kNames + 4 + text_width(curves[i].name, 12));
  }
  return svg.finish(width + 20, std::max(kHeight, labels.empty() ? 0 : labels.back() + 20));
}

}  // namespace millrace::exchange
