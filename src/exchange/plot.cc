// Ticks at round numbers, lines, names at the right.
#include "exchange/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace millrace::exchange {

namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 480;
constexpr double kLeft = 70;
constexpr double kRight = 700;  // names follow
constexpr double kTop = 40;
constexpr double kBottom = 430;
// Told apart also by those who see few colours.
constexpr const char* kColours[] = {"#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f",
                                    "#882255", "#44aa99", "#999933", "#332288"};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') safe += "&amp;";
    else if (c == '<') safe += "&lt;";
    else if (c == '>') safe += "&gt;";
    else safe += c;
  }
  return safe;
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

std::string axis_lines(const Scale& x, const Scale& y, const Axes& axes) {
  std::string svg;
  const double x_step = round_step(x.high - x.low);
  const double y_step = round_step(y.high - y.low);
  for (double value = y.low; value <= y.high + y_step / 2; value += y_step) {
    svg += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft, y.at(value), kRight, y.at(value));
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n", kLeft - 6, y.at(value) + 4, value);
  }
  for (double value = x.low; value <= x.high + x_step / 2; value += x_step)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.4g}</text>\n", x.at(value), kBottom + 18, value);
  svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#333\"/>\n", kLeft, kTop, kRight - kLeft, kBottom - kTop);
  svg += fmt::format("<text x=\"{}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}</text>\n", kLeft, escaped(axes.title));
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (kLeft + kRight) / 2, kBottom + 38, escaped(axes.x));
  svg += fmt::format("<text transform=\"translate(18,{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n", (kTop + kBottom) / 2, escaped(axes.y));
  return svg;
}

}  // namespace

std::string draw_curves(const std::vector<Curve>& curves, const Axes& axes) {
  double x_low = 0, x_high = 0, y_low = 0, y_high = 0;
  bool any = false;
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      x_low = any ? std::min(x_low, x) : x;
      x_high = any ? std::max(x_high, x) : x;
      y_low = any ? std::min(y_low, y) : y;
      y_high = any ? std::max(y_high, y) : y;
      any = true;
    }
  }
  const Scale x = scale_of(x_low, x_high, kLeft, kRight);
  const Scale y = scale_of(y_low, y_high, kBottom, kTop);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  svg += axis_lines(x, y, axes);
  std::vector<std::pair<double, size_t>> ends;
  for (size_t i = 0; i < curves.size(); ++i) {
    std::string points;
    for (const auto& [at, value] : curves[i].points) points += fmt::format("{:.1f},{:.1f} ", x.at(at), y.at(value));
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n", points, kColours[i % std::size(kColours)]);
    if (!curves[i].points.empty()) ends.emplace_back(y.at(curves[i].points.back().second), i);
  }
  std::ranges::sort(ends);
  double last = 0;
  for (const auto& [height, i] : ends) {
    last = std::max(height, last + 14);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", kRight + 8, last + 4, kColours[i % std::size(kColours)], escaped(curves[i].name));
  }
  return svg + "</svg>\n";
}

}  // namespace millrace::exchange
