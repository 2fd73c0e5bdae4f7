// pugixml's tree, read strictly.
#include "net/xml_document.h"

#include <algorithm>
#include <pugixml.hpp>

#include "base/number.h"
#include "base/text.h"

namespace millrace::net {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";

Error bad(std::string_view why) {
  return make_error(Code::kInvalid, "not a document that can be read: {}", why);
}

// The character that "&#…;" names, from behind the "&#"; 0: none that may be there.
uint32_t character_of(std::string_view digits) {
  const int base = digits.starts_with('x') ? 16 : 10;
  if (base == 16) digits.remove_prefix(1);
  const auto value = parse_number<uint32_t>(digits, base);
  if (!value || *value > 0x10ffff || (*value >= 0xd800 && *value < 0xe000)) return 0;
  return *value;
}

Status check_entity(std::string_view entity) {
  for (const std::string_view known : {"amp", "lt", "gt", "quot", "apos"}) {
    if (entity == known) return {};
  }
  if (entity.starts_with('#') && character_of(entity.substr(1)) != 0) return {};
  return bad(fmt::format("&{}; is not a character", printable(entity, 16)));
}

// pugixml reads what it does not know as text, and its strings end at a NUL.
Status check_entities(std::string_view document) {
  constexpr std::pair<std::string_view, std::string_view> kLiteral[] = {{"<!--", "-->"},
                                                                        {"<![CDATA[", "]]>"}};
  if (document.find('\0') != std::string_view::npos) return bad("there is a NUL in it");
  size_t at = 0;
  while ((at = document.find_first_of("<&", at)) != std::string_view::npos) {
    if (document[at] == '&') {
      constexpr size_t kLongest = 12;
      const size_t end = document.substr(at, kLongest).find(';');
      if (end == std::string_view::npos) return bad("a & without its ;");
      MR_TRY(check_entity(document.substr(at + 1, end - 1)));
    }
    size_t next = at + 1;
    for (const auto& [open, close] : kLiteral) {
      if (document.substr(at).starts_with(open)) next = std::min(document.find(close, at), document.size());
    }
    at = next;
  }
  return {};
}

class TreeReader {
 public:
  Result<XmlElement> read(const pugi::xml_node& node, int depth) {
    if (depth > kMaxXmlDepth) return bad("elements lie too deep in each other");
    if (++elements_ > kMaxXmlElements) return bad(fmt::format("more than {} elements", kMaxXmlElements));
    XmlElement element;
    const std::string_view name = node.name();
    element.name = name.substr(name.find(':') == std::string_view::npos ? 0 : name.find(':') + 1);
    for (const pugi::xml_node& child : node.children()) {
      if (child.type() == pugi::node_element) element.children.push_back(MR_TRY(read(child, depth + 1)));
      if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata)
        element.text += child.value();
    }
    if (!is_utf8(element.text)) return bad(fmt::format("the text of {} is not UTF-8", printable(name, 32)));
    if (element.children.empty()) return element;
    if (element.text.find_first_not_of(kBlanks) != std::string::npos)
      return bad(fmt::format("text between the elements of {}", printable(element.name, 32)));
    element.text.clear();
    return element;
  }

 private:
  size_t elements_ = 0;
};

}  // namespace

const XmlElement* XmlElement::find(std::string_view child) const {
  for (const XmlElement& element : children) {
    if (element.name == child) return &element;
  }
  return nullptr;
}

std::string_view XmlElement::get(std::string_view child) const {
  const XmlElement* element = find(child);
  return element == nullptr ? std::string_view() : std::string_view(element->text);
}

uint64_t XmlElement::get_number(std::string_view child) const {
  std::string_view digits = trim(get(child));
  return take_number<uint64_t>(digits).value_or(0);
}

Result<XmlElement> parse_xml(std::string_view document) {
  MR_TRY(check_entities(document));
  constexpr unsigned kHow = pugi::parse_escapes | pugi::parse_eol | pugi::parse_cdata |
                            pugi::parse_ws_pcdata | pugi::parse_doctype | pugi::parse_fragment;
  pugi::xml_document parsed;
  const auto outcome = parsed.load_buffer(document.data(), document.size(), kHow);
  if (!outcome) return bad(fmt::format("{} at byte {}", outcome.description(), outcome.offset));
  pugi::xml_node root;
  for (const pugi::xml_node& node : parsed.children()) {
    if (node.type() == pugi::node_doctype) return bad("it has a DOCTYPE");
    const bool is_text = node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata;
    if (is_text && std::string_view(node.value()).find_first_not_of(kBlanks) != std::string_view::npos)
      return bad("text outside of its elements");
    if (node.type() != pugi::node_element) continue;
    if (root) return bad("there are two documents in it");
    root = node;
  }
  if (!root) return bad("there is no element in it");
  return TreeReader().read(root, 1);
}

bool fits_xml(std::string_view text) {
  if (!is_utf8(text) || text.find("\xef\xbf\xbe") != std::string_view::npos ||
      text.find("\xef\xbf\xbf") != std::string_view::npos)
    return false;
  return std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r' && c != '\n';
  });
}

}  // namespace millrace::net
