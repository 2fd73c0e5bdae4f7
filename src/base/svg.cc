// Implements Svg: widths of texts, and elements as text.
#include "base/svg.h"

#include <fmt/format.h>

#include "base/xml_text.h"

namespace millrace {

namespace {

// Thousandths of the font's size.
constexpr int kWidths[] = {
    // from the blank to ~
    318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,  //
    636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,  //
    1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,  //
    603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,  //
    500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,  //
    635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838};
constexpr int kOtherWidth = 840;
constexpr double kBold = 1.12;

}  // namespace

double text_width(std::string_view text, double size) {
  int width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte <= 0x7E) {
      width += kWidths[byte - 0x20];
    } else if ((byte & 0xC0) != 0x80) {
      width += kOtherWidth;
    }
  }
  return width * size / 1000;
}

void Svg::text(double x, double y, std::string_view words, const TextStyle& style) {
  const char* anchor = style.anchor == Anchor::kStart    ? "start"
                       : style.anchor == Anchor::kMiddle ? "middle"
                                                         : "end";
  body_ += fmt::format(
      R"(<text x="{:.1f}" y="{:.1f}" font-size="{:g}" fill="{}" text-anchor="{}"{} data-width="{:.1f}">{}</text>)",
      x, y, style.size, style.colour, anchor, style.bold ? " font-weight=\"bold\"" : "",
      text_width(words, style.size) * (style.bold ? kBold : 1), escape_xml(words));
  body_ += '\n';
}

std::string Svg::finish(double width, double height) const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {:.0f} {:.0f}" width="{:.0f}" height="{:.0f}" )"
      R"(font-family="Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif">)"
      "\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
      width, height, width, height, body_);
}

}  // namespace millrace
