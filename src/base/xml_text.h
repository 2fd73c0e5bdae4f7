// Escapes text that becomes part of an XML document: an answer or a picture.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// Characters that XML cannot hold at all (most control characters, what is not UTF-8) become U+FFFD.
void append_escaped(std::string& out, std::string_view text);
std::string escape_xml(std::string_view text);

}  // namespace millrace
