// Small documents, strictly checked.
#include "cluster/xml.h"

#include <charconv>
#include <pugixml.hpp>

#include "base/text.h"
#include "net/digest.h"
#include "net/url.h"

namespace millrace::cluster {

namespace {

constexpr size_t kMaxTags = 10;
constexpr size_t kMaxTagKey = 128;
constexpr size_t kMaxTagValue = 256;

Error malformed(std::string_view why) {
  return make_error(Code::kInvalid, "MalformedXML: {}", why);
}

// Namespace prefixes and which namespace is meant differ between clients; the local name decides.
std::string_view local_name(const pugi::xml_node& node) {
  const std::string_view name = node.name();
  return name.substr(name.find(':') == std::string_view::npos ? 0 : name.find(':') + 1);
}

std::string child_text(const pugi::xml_node& node, std::string_view name) {
  for (const pugi::xml_node& child : node.children()) {
    if (local_name(child) == name) return child.text().get();
  }
  return {};
}

Result<pugi::xml_node> parse_root(pugi::xml_document& document, std::string_view xml, std::string_view root) {
  const auto parsed =
      document.load_buffer(xml.data(), xml.size(), pugi::parse_default | pugi::parse_ws_pcdata_single);
  if (!parsed) return malformed(fmt::format("{} at byte {}", parsed.description(), parsed.offset));
  for (const pugi::xml_node& node : document.children()) {
    if (node.type() == pugi::node_element && local_name(node) == root) return node;
  }
  return malformed(fmt::format("there is no {} element", root));
}

std::string unquoted(std::string text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

Status check_tags(const std::vector<store::NameValue>& tags) {
  if (tags.size() > kMaxTags) return make_error(Code::kInvalid, "InvalidTag: more than {} tags", kMaxTags);
  for (size_t i = 0; i < tags.size(); ++i) {
    if (tags[i].first.empty() || tags[i].first.size() > kMaxTagKey || tags[i].second.size() > kMaxTagValue) {
      return make_error(Code::kInvalid, "InvalidTag: keys have 1 to {} bytes, values up to {}", kMaxTagKey,
                        kMaxTagValue);
    }
    for (size_t j = 0; j < i; ++j) {
      if (tags[j].first == tags[i].first) return make_error(Code::kInvalid, "InvalidTag: the same key twice");
    }
  }
  return {};
}

}  // namespace

XmlWriter::XmlWriter(std::string_view root, Namespace space) {
  text_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<";
  text_ += root;
  if (space == Namespace::kS3) text_ += " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";
  text_ += '>';
  open_.emplace_back(root);
}

void XmlWriter::open(std::string_view element) {
  text_ += '<';
  text_ += element;
  text_ += '>';
  open_.emplace_back(element);
}

void XmlWriter::close() {
  text_ += "</";
  text_ += open_.back();
  text_ += '>';
  open_.pop_back();
}

void XmlWriter::add(std::string_view element, std::string_view text) {
  text_ += '<';
  text_ += element;
  text_ += '>';
  append_escaped(text_, text);
  text_ += "</";
  text_ += element;
  text_ += '>';
}

void XmlWriter::add(std::string_view element, uint64_t number) {
  char digits[24];
  const auto [end, problem] = std::to_chars(digits, digits + sizeof digits, number);
  add(element, std::string_view(digits, static_cast<size_t>(end - digits)));
}

std::string XmlWriter::finish() {
  while (!open_.empty()) close();
  text_ += '\n';
  return std::move(text_);
}

Result<DeleteRequest> parse_delete(std::string_view xml) {
  pugi::xml_document document;
  const pugi::xml_node root = MR_TRY(parse_root(document, xml, "Delete"));
  DeleteRequest request;
  request.quiet = child_text(root, "Quiet") == "true";
  for (const pugi::xml_node& node : root.children()) {
    if (local_name(node) != "Object") continue;
    DeleteRequest::Entry entry{child_text(node, "Key"), unquoted(child_text(node, "ETag"))};
    if (entry.key.empty()) return malformed("an Object without a Key");
    if (!child_text(node, "VersionId").empty() && child_text(node, "VersionId") != "null") {
      return make_error(Code::kUnsupported, "NotImplemented: versions of objects are not kept");
    }
    if (request.entries.size() == kMaxDeletes)
      return malformed(fmt::format("more than {} objects", kMaxDeletes));
    request.entries.push_back(std::move(entry));
  }
  if (request.entries.empty()) return malformed("no objects");
  return request;
}

Result<std::vector<CompletedPart>> parse_complete(std::string_view xml) {
  pugi::xml_document document;
  const pugi::xml_node root = MR_TRY(parse_root(document, xml, "CompleteMultipartUpload"));
  std::vector<CompletedPart> parts;
  for (const pugi::xml_node& node : root.children()) {
    if (local_name(node) != "Part") continue;
    CompletedPart part;
    const std::string number = child_text(node, "PartNumber");
    const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), part.number);
    if (problem != std::errc() || end != number.data() + number.size() || part.number < 1 ||
        part.number > store::kMaxParts) {
      return make_error(Code::kInvalid, "InvalidPart: part numbers are 1 to {}", store::kMaxParts);
    }
    part.etag = unquoted(child_text(node, "ETag"));
    for (const pugi::xml_node& child : node.children()) {
      const std::string_view name = local_name(child);
      if (!name.starts_with("Checksum")) continue;
      const auto kind = net::find_checksum_algorithm(name.substr(8));
      if (kind) part.checksums.emplace_back(net::checksum_header(*kind), child.text().get());
    }
    if (parts.size() == store::kMaxParts) return malformed("too many parts");
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return malformed("no parts");
  return parts;
}

Result<std::vector<store::NameValue>> parse_tagging(std::string_view xml) {
  pugi::xml_document document;
  const pugi::xml_node root = MR_TRY(parse_root(document, xml, "Tagging"));
  std::vector<store::NameValue> tags;
  for (const pugi::xml_node& set : root.children()) {
    if (local_name(set) != "TagSet") continue;
    for (const pugi::xml_node& tag : set.children()) {
      if (local_name(tag) == "Tag") tags.emplace_back(child_text(tag, "Key"), child_text(tag, "Value"));
    }
  }
  MR_TRY(check_tags(tags));
  return tags;
}

Result<std::vector<store::NameValue>> parse_tagging_header(std::string_view text) {
  const std::vector<net::QueryItem> items = MR_TRY(net::parse_query(text));
  std::vector<store::NameValue> tags(items.begin(), items.end());
  MR_TRY(check_tags(tags));
  return tags;
}

Result<std::string> parse_create_bucket(std::string_view xml) {
  if (xml.find_first_not_of(" \r\n\t") == std::string_view::npos) return std::string();
  pugi::xml_document document;
  const pugi::xml_node root = MR_TRY(parse_root(document, xml, "CreateBucketConfiguration"));
  return child_text(root, "LocationConstraint");
}

}  // namespace millrace::cluster
