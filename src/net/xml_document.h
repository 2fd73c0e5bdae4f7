// XmlElement: a small XML document as a tree of names and texts. Pure.
//
// Strict where two readers could see two documents: the text of an element is all of it, over comments and
// CDATA sections; NUL in any form, document types, unknown entities, a second root and text between elements
// are refused. Nothing outside the document is ever fetched. Depth and number of elements are bounded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::net {

inline constexpr size_t kMaxXmlElements = 200'000;
inline constexpr int kMaxXmlDepth = 16;

struct XmlElement {
  std::string name;  // without the prefix: which namespace is meant differs between clients
  std::string text;  // empty where there are children
  std::vector<XmlElement> children;

  const XmlElement* find(std::string_view child) const;  // the first of that name
  std::string_view get(std::string_view child) const;    // its text; empty: there is none
  uint64_t get_number(std::string_view child) const;     // 0: there is none
  bool is_true(std::string_view child) const { return get(child) == "true"; }
};

// kInvalid: this is not such a document; the message says why and where.
Result<XmlElement> parse_xml(std::string_view document);

// Whether an XML document can carry the text, in any form of escaping.
bool fits_xml(std::string_view text);

}  // namespace millrace::net
