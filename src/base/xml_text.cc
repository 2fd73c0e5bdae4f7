// Escapes text for XML, character by character.
#include "base/xml_text.h"

#include "base/text.h"

namespace millrace {

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  const bool utf8 = is_utf8(text);
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\r':
        out += "&#13;";
        break;
      case '\n':
        out += "&#10;";
        break;
      case '\t':
        out += "&#9;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || (!utf8 && static_cast<unsigned char>(c) >= 0x80)) {
          out += kReplacement;
        } else if (c == '\xef' &&
                   (text.substr(at, 3) == "\xef\xbf\xbe" || text.substr(at, 3) == "\xef\xbf\xbf")) {
          out += kReplacement;
          at += 2;
        } else {
          out += c;
        }
    }
  }
}

std::string escape_xml(std::string_view text) {
  std::string out;
  append_escaped(out, text);
  return out;
}

}  // namespace millrace
