// Svg: builds an SVG picture. Widths of texts are known before anybody draws them.
//
// Widths are those of DejaVu Sans, the widest of the usual sans-serif fonts: what fits in it fits in the
// others.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

double text_width(std::string_view text, double size);

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = 13;
  std::string_view colour = "#222";
  Anchor anchor = Anchor::kStart;
  bool bold = false;
};

class Svg {
 public:
  void text(double x, double y, std::string_view words, const TextStyle& style);
  void add(std::string element) { body_ += std::move(element); }
  std::string finish(double width, double height) const;

 private:
  std::string body_;
};

}  // namespace millrace
