// Writes S3 answers, and parses the four documents that requests carry.
#include "gateway/s3_xml.h"

#include <algorithm>
#include <initializer_list>

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "gateway/s3_errors.h"
#include "net/digest.h"
#include "net/url.h"
#include "net/xml_document.h"

namespace millrace::gateway {

namespace {

using net::XmlElement;

constexpr size_t kMaxTags = 10;
constexpr size_t kMaxTagKey = 128;
constexpr size_t kMaxTagValue = 256;

Error malformed(std::string_view why) {
  return make_error(kMalformedXML, "{}", why);
}

enum class Form { kText, kOne, kMany };  // text, and once; elements, and once; any number
struct Known {
  std::string_view name;
  Form form = Form::kText;
};

// Refuses children that are not known here, and those that come twice where one must decide.
Status check_children(const XmlElement& element, std::initializer_list<Known> known) {
  for (const Known& one : known) {
    const auto count = std::ranges::count(element.children, one.name, &XmlElement::name);
    if (one.form != Form::kMany && count > 1)
      return malformed(fmt::format("{} has more than one {}", element.name, one.name));
  }
  for (const XmlElement& child : element.children) {
    const auto* const one = std::ranges::find(known, child.name, &Known::name);
    if (one == known.end()) {
      return make_error(kNotImplemented, "the element {} in {} is not supported", printable(child.name, 64),
                        element.name);
    }
    if (one->form == Form::kText && !child.children.empty())
      return malformed(fmt::format("elements inside a {}", child.name));
  }
  return {};
}

Result<XmlElement> parse_root(std::string_view xml, std::string_view root) {
  auto element = net::parse_xml(xml);
  if (!element) return malformed(element.error().message());
  if (element->name != root) return malformed(fmt::format("there is no {} element", root));
  if (element->children.empty() && element->text.find_first_not_of(" \t\r\n") != std::string::npos)
    return malformed(fmt::format("{} holds text", root));
  return element;
}

template <typename Number>
Result<Number> read_number(std::string_view text, std::string_view element) {
  const auto number = parse_number<Number>(trim(text));
  if (!number) return malformed(fmt::format("{} is not a number", element));
  return *number;
}

std::string unquoted(std::string_view quoted) {
  std::string text(trim(quoted));
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

Status check_tags(const std::vector<store::NameValue>& tags) {
  if (tags.size() > kMaxTags) return make_error(kInvalidTag, "more than {} tags", kMaxTags);
  for (size_t i = 0; i < tags.size(); ++i) {
    if (tags[i].first.empty() || tags[i].first.size() > kMaxTagKey || tags[i].second.size() > kMaxTagValue) {
      return make_error(kInvalidTag, "keys have 1 to {} bytes, values up to {}", kMaxTagKey, kMaxTagValue);
    }
    for (size_t j = 0; j < i; ++j) {
      if (tags[j].first == tags[i].first) return make_error(kInvalidTag, "the same key twice");
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

namespace {

Result<bool> parse_flag(std::string_view text, std::string_view element) {
  const std::string lower = lower_case(trim(text));
  if (lower == "true") return true;
  if (lower == "false" || lower.empty()) return false;
  return malformed(fmt::format("{} is true or false", element));
}

Result<DeleteRequest::Entry> parse_deletion(const XmlElement& object) {
  MR_TRY(check_children(object, {{"Key"}, {"VersionId"}, {"ETag"}, {"Size"}, {"LastModifiedTime"}}));
  DeleteRequest::Entry entry;
  entry.key = object.get("Key");
  if (entry.key.empty()) return malformed("an Object without a Key");
  const std::string_view version = object.get("VersionId");
  if (!version.empty() && version != "null")
    return make_error(kNotImplemented, "versions of objects are not kept");
  if (const XmlElement* etag = object.find("ETag")) entry.condition.only_if_etag = unquoted(etag->text);
  if (const XmlElement* size = object.find("Size"))
    entry.condition.only_if_size = MR_TRY(read_number<uint64_t>(size->text, "Size"));
  if (const XmlElement* time = object.find("LastModifiedTime")) {
    auto date = parse_date(trim(time->text));
    if (!date) return malformed(date.error().message());
    entry.condition.only_if_modified_ms = *date;
  }
  return entry;
}

}  // namespace

Result<int64_t> parse_date(std::string_view text) {
  auto date = parse_http_date(text);
  return date ? std::move(date) : parse_iso_date(text);
}

Result<DeleteRequest> parse_delete(std::string_view xml) {
  const XmlElement root = MR_TRY(parse_root(xml, "Delete"));
  MR_TRY(check_children(root, {{"Quiet"}, {"Object", Form::kMany}}));
  DeleteRequest request;
  request.quiet = MR_TRY(parse_flag(root.get("Quiet"), "Quiet"));
  for (const XmlElement& child : root.children) {
    if (child.name != "Object") continue;
    if (request.entries.size() == kMaxDeletes)
      return malformed(fmt::format("more than {} objects", kMaxDeletes));
    request.entries.push_back(MR_TRY(parse_deletion(child)));
  }
  if (request.entries.empty()) return malformed("no objects");
  return request;
}

namespace {

Result<CompletedPart> parse_part(const XmlElement& node) {
  CompletedPart part;
  auto number = read_number<unsigned>(node.get("PartNumber"), "PartNumber");
  if (!number || *number < 1 || *number > store::kMaxParts)
    return make_error(store::kNoSuchPart, "part numbers are 1 to {}", store::kMaxParts);
  part.number = *number;
  part.etag = unquoted(node.get("ETag"));
  for (const XmlElement& child : node.children) {
    if (std::ranges::count(node.children, child.name, &XmlElement::name) > 1)
      return malformed(fmt::format("a Part has more than one {}", printable(child.name, 64)));
    if (!child.children.empty())
      return malformed(fmt::format("elements inside a {}", printable(child.name, 64)));
    if (child.name == "PartNumber" || child.name == "ETag") continue;
    const auto kind = child.name.starts_with("Checksum")
                          ? net::find_checksum_algorithm(std::string_view(child.name).substr(8))
                          : std::nullopt;
    if (!kind) {
      return make_error(kNotImplemented, "the element {} in Part is not supported",
                        printable(child.name, 64));
    }
    if (!child.text.empty()) part.checksums.emplace_back(net::checksum_header(*kind), trim(child.text));
  }
  return part;
}

}  // namespace

Result<std::vector<CompletedPart>> parse_complete(std::string_view xml) {
  const XmlElement root = MR_TRY(parse_root(xml, "CompleteMultipartUpload"));
  MR_TRY(check_children(root, {{"Part", Form::kMany}}));
  if (root.children.size() > store::kMaxParts) return malformed("too many parts");
  std::vector<CompletedPart> parts;
  for (const XmlElement& node : root.children) parts.push_back(MR_TRY(parse_part(node)));
  if (parts.empty()) return malformed("no parts");
  return parts;
}

Result<std::vector<store::NameValue>> parse_tagging(std::string_view xml) {
  const XmlElement root = MR_TRY(parse_root(xml, "Tagging"));
  MR_TRY(check_children(root, {{"TagSet", Form::kOne}}));
  std::vector<store::NameValue> tags;
  if (const XmlElement* set = root.find("TagSet")) {
    MR_TRY(check_children(*set, {{"Tag", Form::kMany}}));
    for (const XmlElement& tag : set->children) {
      MR_TRY(check_children(tag, {{"Key"}, {"Value"}}));
      tags.emplace_back(tag.get("Key"), tag.get("Value"));
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
  const XmlElement root = MR_TRY(parse_root(xml, "CreateBucketConfiguration"));
  MR_TRY(check_children(root, {{"LocationConstraint"}}));
  return std::string(root.get("LocationConstraint"));
}

}  // namespace millrace::gateway
