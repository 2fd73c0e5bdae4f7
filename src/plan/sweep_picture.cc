// Draws a sweep as a plot: throughput on the left axis, cost on the right, the bottleneck under the values.
#include <algorithm>
#include <cmath>

#include "base/svg.h"
#include "plan/sweep.h"

namespace millrace::plan {

namespace {

constexpr double kLeft = 110, kTop = 90, kWidth = 760, kHeight = 320, kRight = 110;
constexpr std::string_view kRateColour = "#1f5fa8", kCostColour = "#b26a00", kGrid = "#e3e7ec",
                           kQuiet = "#667";
constexpr int kSteps = 5;

// The next of 1, 2, 2.5, 5, 10 and so on.
double round_up(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0}) {
    if (value <= step * power * (1 + 1e-9)) return step * power;
  }
  return 10 * power;
}

struct Axis {
  double top = 1;
  double y(double value) const { return kTop + kHeight * (1 - value / top); }
};

double x_of(size_t point, size_t points) {
  return kLeft + (points < 2 ? 0.5 : static_cast<double>(point) / static_cast<double>(points - 1)) * kWidth;
}

std::string polyline(const std::vector<double>& values, const Axis& axis, std::string_view colour) {
  std::string path;
  for (size_t at = 0; at < values.size(); ++at)
    path += fmt::format("{}{:.1f},{:.1f}", at == 0 ? "" : " ", x_of(at, values.size()), axis.y(values[at]));
  std::string out =
      fmt::format(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2.5"/>)", path, colour);
  if (values.size() <= 60) {
    for (size_t at = 0; at < values.size(); ++at)
      out += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="{}"/>)", x_of(at, values.size()),
                         axis.y(values[at]), colour);
  }
  return out + "\n";
}

void draw_axes(Svg& svg, const Axis& rate, const Axis& cost) {
  for (int step = 0; step <= kSteps; ++step) {
    const double share = static_cast<double>(step) / kSteps, y = kTop + kHeight * (1 - share);
    svg.add(fmt::format(R"(<line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}" stroke="{}"/>)"
                        "\n",
                        kLeft, kLeft + kWidth, y, y, kGrid));
    svg.text(kLeft - 10, y + 4, format_rate(to_rational(rate.top * share)), {12, kRateColour, Anchor::kEnd});
    if (cost.top > 0)
      svg.text(kLeft + kWidth + 10, y + 4, format_dollars(to_rational(cost.top * share)), {12, kCostColour});
  }
}

// Under the axis: values where there is room for them.
void draw_values(Svg& svg, const std::string& key, const std::vector<SweepPoint>& points) {
  double free_from = 0;
  for (size_t at = 0; at < points.size(); ++at) {
    const double x = x_of(at, points.size()), half = text_width(points[at].value, 12) / 2;
    if (x - half < free_from) continue;
    svg.text(x, kTop + kHeight + 20, points[at].value, {12, "#222", Anchor::kMiddle});
    free_from = x + half + 10;
  }
  svg.text(kLeft + kWidth / 2, kTop + kHeight + 42, key, {13, kQuiet, Anchor::kMiddle, true});
}

// What the dashed line stands for, beside it; the labels of lines close to each other are one below the
// other.
void label_change(Svg& svg, double x, size_t change, const std::string& limit) {
  const std::string words = fmt::format("from here on limited by the {}", limit);
  const double y = kTop + 14 + 15 * static_cast<double>(change % 6);
  const bool fits = x + 6 + text_width(words, 11) < kLeft + kWidth;
  svg.text(fits ? x + 6 : x - 6, y, words, {11, "#c62828", fits ? Anchor::kStart : Anchor::kEnd});
}

// One line for every stretch with the same bottleneck.
double draw_limits(Svg& svg, const std::vector<SweepPoint>& points) {
  double y = kTop + kHeight + 70;
  size_t changes = 0;
  for (size_t first = 0; first < points.size();) {
    size_t last = first;
    while (last + 1 < points.size() && points[last + 1].limit == points[first].limit) ++last;
    const double x = x_of(first, points.size());
    if (first > 0)
      svg.add(fmt::format(
          R"(<line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}" stroke="#c62828" stroke-dasharray="4 4"/>)"
          "\n",
          x, x, kTop, kTop + kHeight));
    if (first > 0) label_change(svg, x, changes++, points[first].limit);
    const std::string span =
        first == last ? points[first].value : points[first].value + " to " + points[last].value;
    svg.text(kLeft, y, fmt::format("{}: limited by the {}", span, points[first].limit), {12, "#222"});
    y += 19;
    first = last + 1;
  }
  return y;
}

}  // namespace

std::string sweep_picture(const std::string& title, const std::string& key,
                          const std::vector<SweepPoint>& points) {
  std::vector<double> rates, costs;
  for (const SweepPoint& point : points) {
    rates.push_back(to_double(point.delivered));
    costs.push_back(to_double(point.dollars));
  }
  const double dearest = *std::max_element(costs.begin(), costs.end());
  const Axis rate{round_up(*std::max_element(rates.begin(), rates.end()))};
  const Axis cost{dearest > 0 ? round_up(dearest) : 0};
  Svg svg;
  svg.text(kLeft, 36, title, {20, "#222", Anchor::kStart, true});
  svg.text(kLeft, 64, "into the GPUs", {13, kRateColour, Anchor::kStart, true});
  if (cost.top > 0) svg.text(kLeft + kWidth, 64, "cost", {13, kCostColour, Anchor::kEnd, true});
  draw_axes(svg, rate, cost);
  svg.add(polyline(rates, rate, kRateColour));
  if (cost.top > 0) svg.add(polyline(costs, cost, kCostColour));
  draw_values(svg, key, points);
  const double bottom = draw_limits(svg, points);
  double width = kLeft + kWidth + kRight;
  for (const SweepPoint& point : points)
    width = std::max(width, kLeft + 40 +
                                text_width(points.front().value + " to " + points.back().value +
                                               ": limited by the " + point.limit,
                                           12));
  return svg.finish(width, bottom + 12);
}

}  // namespace millrace::plan
