// Lays out and draws the path: columns of pipes and ribbons between them.
#include "plan/picture.h"

#include <algorithm>
#include <cmath>

#include "base/svg.h"
#include "base/units.h"

namespace millrace::plan {

namespace {

constexpr double kMargin = 28, kGap = 46, kTitle = 96, kFlowHeight = 60, kFlowHeightOfColumn = 8,
                 kRowGap = 26, kLegend = 46;
constexpr double kNameSize = 13, kSmallSize = 11, kLine = 16;
constexpr double kLeastPipe = 4, kMostSpare = 1.9, kLeastDrawn = 22;
constexpr std::string_view kPipe = "#e2e8ef", kFlow = "#3b78b4", kRibbon = "#c9d8e8", kRed = "#c62828",
                           kPale = "#f6d5d3", kGreen = "#2e7d32", kPaleGreen = "#d5e8d6", kDashes = "#8a97a6",
                           kQuiet = "#5a6472", kInk = "#1d2733";

struct Cell {
  size_t resource = 0;
  double x = 0, y = 0;               // of the pipe's upper left corner
  double pipe = 0;                   // how high it is drawn
  double flow = 0;                   // how high the flow in it is
  bool clipped = false;              // the capacity is more than is drawn
  double out_used = 0, in_used = 0;  // how much of the flow's height has its ribbon
  std::vector<std::string> above, below;
  double width = 0;

  double height() const { return kLine * static_cast<double>(above.size() + below.size()) + pipe + 10; }
  double flow_top() const { return y + (pipe - flow) / 2; }
};

class Picture {
 public:
  Picture(std::string title, const Check& check) : title_(std::move(title)), check_(check) {
    make_cells();
    place_cells();
    fill_page();
  }
  std::string draw();

 private:
  void make_cells();
  void place_cells();
  void fill_page();
  void draw_ribbons();
  // The colour of what limits: GPUs that never wait are no alarm.
  bool is_fine() const { return check_.gpu_utilisation() == 1; }
  std::string_view limit_colour() const { return is_fine() ? kGreen : kRed; }
  void draw_cell(const Cell& cell);
  void draw_head();

  const std::string title_;
  const Check& check_;
  std::vector<Cell> cells_;  // by resource
  double scale_ = 1;         // height of one sample a second
  size_t most_rows_ = 1;     // of a column
  double content_width_ = 0, content_height_ = 0;
  double width_ = 0, height_ = 0;  // of the page
  Svg svg_;
};

void Picture::make_cells() {
  // A long path is drawn wider, too, or the picture were a ribbon itself.
  scale_ = (kFlowHeight + kFlowHeightOfColumn * static_cast<double>(columns(check_).back())) /
           std::max(1e-9, to_double(check_.samples_per_second));
  for (size_t at = 0; at < check_.path.resources.size(); ++at) {
    const Resource& one = check_.path.resources[at];
    Cell cell;
    cell.resource = at;
    cell.flow = to_double(check_.flow.on_edge[one.edge]) * scale_;
    const double whole = to_double(one.capacity) * scale_,
                 most = std::max(kLeastDrawn, cell.flow * kMostSpare);
    cell.clipped = whole > most;
    cell.pipe = std::max(kLeastPipe, std::min(whole, most));
    cell.above = {one.noun(), fmt::format("{} x {}", format_count(one.count), one.part)};
    cell.below = {format_used(one, check_.used(one)), format_percent(check_.utilisation(one))};
    for (const std::string& line : cell.above)
      cell.width = std::max(cell.width, text_width(line, kNameSize) * 1.12);
    for (const std::string& line : cell.below)
      cell.width = std::max(cell.width, text_width(line, kSmallSize) * 1.12);
    cells_.push_back(std::move(cell));
  }
}

void Picture::place_cells() {
  const std::vector<size_t> column_of = columns(check_);
  const size_t count = column_of.back() + 1;
  std::vector<double> widths(count, 0), heights(count, -kRowGap);
  std::vector<size_t> rows(count, 0);
  for (size_t at = 0; at < cells_.size(); ++at) {
    widths[column_of[at]] = std::max(widths[column_of[at]], cells_[at].width);
    heights[column_of[at]] += cells_[at].height() + kRowGap;
    most_rows_ = std::max(most_rows_, ++rows[column_of[at]]);
  }
  const double tallest = *std::max_element(heights.begin(), heights.end());
  double x = kMargin;
  for (size_t column = 0; column < count; ++column) {
    double y = kTitle + (tallest - heights[column]) / 2;
    for (size_t at = 0; at < cells_.size(); ++at) {
      if (column_of[at] != column) continue;
      Cell& cell = cells_[at];
      cell.x = x;
      cell.y = y + kLine * static_cast<double>(cell.above.size());
      cell.width = widths[column];
      y += cell.height() + kRowGap;
    }
    x += widths[column] + kGap;
  }
  content_width_ = x - kGap + kMargin;
  content_height_ = kTitle + tallest + kLegend;
  width_ = std::max(content_width_, 2 * kMargin + text_width(check_.ladder[0].sentence, 15) * 1.12);
  height_ = content_height_;
}

// Slides are 16 by 9. Pipes are drawn wider as far as there is room, the rest is margin.
void Picture::fill_page() {
  constexpr double kWide = 16, kHigh = 9, kMostWider = 5, kShare = 0.85;
  width_ = std::max({width_, kMargin + 640, 2 * kMargin + text_width(title_, 20) * 1.12});
  double pipes = 0;
  for (const Cell& cell : cells_) pipes = std::max(pipes, cell.pipe);
  const double room = width_ * kHigh / kWide - height_;
  const double rows = static_cast<double>(most_rows_);
  const double wider = std::clamp(1 + room * kShare / std::max(1.0, pipes * rows), 1.0, kMostWider);
  for (Cell& cell : cells_) {
    cell.pipe *= wider;
    cell.flow *= wider;
  }
  scale_ *= wider;
  const double needed = width_;
  place_cells();
  height_ = std::max(height_, needed * kHigh / kWide);
  width_ = std::max(needed, height_ * kWide / kHigh);
  const double right = (width_ - content_width_) / 2 - kMargin, down = (height_ - content_height_) / 2;
  for (Cell& cell : cells_) {
    cell.x += std::max(0.0, right);
    cell.y += std::max(0.0, down);
  }
}

void Picture::draw_ribbons() {
  std::vector<Ribbon> all = ribbons(check_);
  // From above to below at both ends, so that they cross as little as they can.
  std::sort(all.begin(), all.end(), [this](const Ribbon& a, const Ribbon& b) {
    return std::pair(cells_[a.from].y, cells_[a.to].y) < std::pair(cells_[b.from].y, cells_[b.to].y);
  });
  for (const Ribbon& ribbon : all) {
    Cell& from = cells_[ribbon.from];
    Cell& to = cells_[ribbon.to];
    const double high = to_double(ribbon.samples_per_second) * scale_;
    const double x1 = from.x + from.width, x2 = to.x, middle = (x1 + x2) / 2;
    const double y1 = from.flow_top() + from.out_used, y2 = to.flow_top() + to.in_used;
    from.out_used += high;
    to.in_used += high;
    svg_.add(fmt::format(
        R"(<path class="ribbon" d="M{0:.1f},{1:.1f} C{2:.1f},{1:.1f} {2:.1f},{3:.1f} {4:.1f},{3:.1f} )"
        R"(L{4:.1f},{5:.1f} C{2:.1f},{5:.1f} {2:.1f},{6:.1f} {0:.1f},{6:.1f} Z" fill="{7}"/>)"
        "\n",
        x1, y1, middle, y2, x2, y2 + high, y1 + high, kRibbon));
  }
}

void Picture::draw_cell(const Cell& cell) {
  const bool red = check_.limits(cell.resource);
  svg_.add(fmt::format(
      R"(<rect class="pipe{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="3" fill="{}"/>)"
      "\n",
      red ? " cut" : "", cell.x, cell.y, cell.width, cell.pipe,
      red ? (is_fine() ? kPaleGreen : kPale) : kPipe));
  if (cell.clipped) {
    for (const double y : {cell.y, cell.y + cell.pipe})
      svg_.add(fmt::format(
          R"(<line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}" stroke="{}" stroke-dasharray="5 4"/>)"
          "\n",
          cell.x, cell.x + cell.width, y, y, kDashes));
  }
  svg_.add(fmt::format(
      R"(<rect class="flow" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>)"
      "\n",
      cell.x, cell.flow_top(), cell.width, std::max(1.0, cell.flow), red ? limit_colour() : kFlow));
  const double middle = cell.x + cell.width / 2;
  double y = cell.y - 6 - kLine * static_cast<double>(cell.above.size() - 1);
  for (const std::string& line : cell.above) {
    const bool first = &line == &cell.above[0];
    svg_.text(middle, y, line,
              {first ? kNameSize : kSmallSize,
               red     ? limit_colour()
               : first ? kInk
                       : kQuiet,
               Anchor::kMiddle, first});
    y += kLine;
  }
  y = cell.y + cell.pipe + kLine;
  for (const std::string& line : cell.below) {
    const bool last = &line == &cell.below.back();
    svg_.text(middle, y, line, {kSmallSize, red ? limit_colour() : kInk, Anchor::kMiddle, last});
    y += kLine;
  }
}

void Picture::draw_head() {
  svg_.text(kMargin, 36, title_, {20, kInk, Anchor::kStart, true});
  svg_.text(kMargin, 62, check_.ladder[0].sentence, {15, limit_colour(), Anchor::kStart, true});
  const double y = height_ - 16;
  svg_.add(fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="14" height="10" fill="{}"/>)", kMargin, y - 9,
                       kFlow));
  svg_.text(kMargin + 20, y, "what flows", {kSmallSize, kQuiet});
  svg_.add(fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="14" height="10" fill="{}"/>)", kMargin + 100,
                       y - 9, kPipe));
  svg_.text(kMargin + 120, y, "what could", {kSmallSize, kQuiet});
  svg_.add(fmt::format(
      R"(<rect x="{0:.1f}" y="{1:.1f}" width="26" height="10" fill="{2}"/>)"
      R"(<path d="M{0:.1f},{1:.1f} h26 m0,10 h-26" stroke="{3}" stroke-dasharray="5 4" fill="none"/>)",
      kMargin + 200, y - 9, kPipe, kDashes));
  svg_.text(kMargin + 232, y, "dashed: could carry more than is drawn", {kSmallSize, kQuiet});
  svg_.add(fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="14" height="10" fill="{}"/>)", kMargin + 490,
                       y - 9, limit_colour()));
  svg_.text(kMargin + 510, y, is_fine() ? "busy GPUs" : "what limits", {kSmallSize, kQuiet});
}

std::string Picture::draw() {
  draw_head();
  draw_ribbons();
  for (const Cell& cell : cells_) draw_cell(cell);
  return svg_.finish(width_, height_);
}

// Characters on a line, as a terminal counts them.
std::string padded(std::string text, size_t width) {
  const auto used = static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  return text + std::string(width > used ? width - used : 0, ' ');
}

}  // namespace

std::string flow_picture(const std::string& title, const Check& check) {
  return Picture(title, check).draw();
}

std::string flow_text(const std::string& title, const Check& check, size_t width) {
  constexpr size_t kFigures = 34;
  size_t names = 0;
  for (const Resource& one : check.path.resources) names = std::max(names, one.noun().size() + 3);
  const size_t bar = std::max<size_t>(10, width > names + kFigures ? width - names - kFigures : 10);
  // Twice the flow fills the bar.
  const double scale = static_cast<double>(bar) / 2 / std::max(1e-9, to_double(check.samples_per_second));
  const std::vector<size_t> column_of = columns(check);
  std::string out = title + "\n\n";
  for (size_t at = 0; at < check.path.resources.size(); ++at) {
    const Resource& one = check.path.resources[at];
    if (at > 0 && column_of[at] != column_of[at - 1]) out += padded("", names) + "▼\n";
    const auto full = static_cast<size_t>(std::lround(to_double(check.flow.on_edge[one.edge]) * scale));
    const double could = to_double(one.capacity) * scale;
    const bool clipped = could > static_cast<double>(bar);
    const size_t wide = clipped ? bar : std::max(full, static_cast<size_t>(std::lround(could)));
    std::string pipe;
    for (size_t cell = 0; cell < wide; ++cell) pipe += cell < full ? "█" : "░";
    out += padded((check.limits(at) ? "> " : "  ") + one.noun(), names) +
           padded(pipe + (clipped ? "»" : ""), bar + 2) +
           fmt::format("{}, {}\n", format_used(one, check.used(one)), format_percent(check.utilisation(one)));
  }
  return out + "\n" + check.ladder[0].sentence + "\n";
}

}  // namespace millrace::plan
