// Listing in key order, page by page.
#include "gateway/list_objects.h"

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/number.h"
#include "gateway/conditions.h"
#include "net/digest.h"

namespace millrace::gateway {

Result<uint64_t> get_number(const Call& call, std::string_view name, uint64_t usual) {
  const auto text = call.find_query(name);
  if (!text || text->empty()) return usual;
  const auto number = parse_number<uint64_t>(*text);
  if (!number) return make_error(Code::kInvalid, "{} is not a number", name);
  return *number;
}

Result<uint64_t> get_limit(const Call& call, std::string_view name) {
  constexpr uint64_t kMost = 1000;
  return std::min(MR_TRY(get_number(call, name, kMost)), kMost);
}

Result<bool> is_url_encoded(const Call& call) {
  const std::string type = call.get_query("encoding-type");
  if (!type.empty() && type != "url") return make_error(Code::kInvalid, "encoding-type can only be url");
  return type == "url";
}

void add_owner(XmlWriter& xml, std::string_view element) {
  xml.open(element);
  xml.add("ID", "millrace");
  xml.add("DisplayName", "millrace");
  xml.close();
}

namespace {

struct ListRequest {
  store::ListOptions options;
  bool version2 = false;
  bool url_encoded = false;
  bool with_owner = false;
  std::string marker;  // version 1, and of versions
  std::string version_marker;
  std::string start_after;           // version 2
  std::optional<std::string> token;  // version 2, as the client sent it
};

Result<ListRequest> parse_list(const Call& call) {
  ListRequest list;
  list.version2 = call.get_query("list-type") == "2";
  list.options.prefix = call.get_query("prefix");
  list.options.delimiter = call.get_query("delimiter");
  list.url_encoded = MR_TRY(is_url_encoded(call));
  list.options.limit = MR_TRY(get_limit(call, "max-keys"));
  if (list.version2) {
    list.with_owner = call.get_query("fetch-owner") == "true";
    list.start_after = call.get_query("start-after");
    if (const auto token = call.find_query("continuation-token")) list.token = *token;
    list.options.after = list.start_after;
    if (list.token && !list.token->empty()) {
      auto key = net::from_base64(*list.token);
      if (!key) return make_error(Code::kInvalid, "the continuation token is not one of ours");
      list.options.after = key.take();
    }
  } else {
    list.with_owner = true;
    list.marker = call.get_query("marker");
    list.options.after = list.marker;
  }
  return list;
}

std::string encoded(const ListRequest& list, const std::string& text) {
  return list.url_encoded ? net::percent_encode(text, net::Encode::kPath) : text;
}

void add_prefixes(XmlWriter& xml, const ListRequest& list, const store::ListPage& page) {
  for (const store::ListEntry& entry : page.entries) {
    if (!entry.is_prefix) continue;
    xml.open("CommonPrefixes");
    xml.add("Prefix", encoded(list, entry.key));
    xml.close();
  }
}

std::string list_xml(const std::string& bucket, const ListRequest& list, const store::ListPage& page) {
  XmlWriter xml("ListBucketResult");
  xml.add("Name", bucket);
  xml.add("Prefix", encoded(list, list.options.prefix));
  xml.add("MaxKeys", uint64_t{list.options.limit});
  if (!list.options.delimiter.empty()) xml.add("Delimiter", encoded(list, list.options.delimiter));
  if (list.url_encoded) xml.add("EncodingType", "url");
  xml.add("IsTruncated", page.truncated ? "true" : "false");
  const std::string last = page.entries.empty() ? std::string() : page.entries.back().key;
  if (list.version2) {
    xml.add("KeyCount", uint64_t{page.entries.size()});
    if (!list.start_after.empty()) xml.add("StartAfter", encoded(list, list.start_after));
    if (list.token) xml.add("ContinuationToken", *list.token);
    if (page.truncated) xml.add("NextContinuationToken", net::to_base64(last));
  } else {
    xml.add("Marker", encoded(list, list.marker));
    if (page.truncated) xml.add("NextMarker", encoded(list, last));
  }
  for (const store::ListEntry& entry : page.entries) {
    if (entry.is_prefix) continue;
    xml.open("Contents");
    xml.add("Key", encoded(list, entry.key));
    xml.add("LastModified", format_iso_date(entry.modified_ms));
    xml.add("ETag", quoted_etag(entry.etag));
    xml.add("Size", entry.size);
    xml.add("StorageClass", "STANDARD");
    if (entry.cached != store::Cached::kNoUpstream)
      xml.add("Cached", entry.cached == store::Cached::kYes ? "true" : "false");
    if (list.with_owner) add_owner(xml, "Owner");
    xml.close();
  }
  add_prefixes(xml, list, page);
  return xml.finish();
}

std::string versions_xml(const std::string& bucket, const ListRequest& list, const store::ListPage& page) {
  XmlWriter xml("ListVersionsResult");
  xml.add("Name", bucket);
  xml.add("Prefix", encoded(list, list.options.prefix));
  xml.add("KeyMarker", encoded(list, list.marker));
  xml.add("VersionIdMarker", list.version_marker);
  xml.add("MaxKeys", uint64_t{list.options.limit});
  if (!list.options.delimiter.empty()) xml.add("Delimiter", encoded(list, list.options.delimiter));
  if (list.url_encoded) xml.add("EncodingType", "url");
  xml.add("IsTruncated", page.truncated ? "true" : "false");
  if (page.truncated && !page.entries.empty()) {
    xml.add("NextKeyMarker", encoded(list, page.entries.back().key));
    if (!page.entries.back().is_prefix) xml.add("NextVersionIdMarker", "null");
  }
  for (const store::ListEntry& entry : page.entries) {
    if (entry.is_prefix) continue;
    xml.open("Version");
    xml.add("Key", encoded(list, entry.key));
    xml.add("VersionId", "null");
    xml.add("IsLatest", "true");
    xml.add("LastModified", format_iso_date(entry.modified_ms));
    xml.add("ETag", quoted_etag(entry.etag));
    xml.add("Size", entry.size);
    xml.add("StorageClass", "STANDARD");
    add_owner(xml, "Owner");
    xml.close();
  }
  add_prefixes(xml, list, page);
  return xml.finish();
}

net::Task<Result<store::ListPage>> get_page(Call& call, store::ListOptions options) {
  if (options.limit == 0) co_return store::ListPage();
  // Keys of the usual length, in the page and in its XML.
  constexpr uint64_t kEntryBytes = 1024;
  auto reserved = co_await call.reserve(options.limit * kEntryBytes);
  if (!reserved) co_return reserved.take_error();
  std::function<void(store::Done<store::ListPage>)> list = [&call,
                                                            options](store::Done<store::ListPage> done) {
    call.objects().list(call.bucket, options, std::move(done));
  };
  co_return co_await call.ask<store::ListPage>(std::move(list));
}

}  // namespace

net::Task<Status> list_objects(Call& call) {
  auto list = parse_list(call);
  if (!list) co_return co_await call.refuse(list.error());
  auto page = co_await get_page(call, list->options);
  if (!page) co_return co_await call.refuse(page.error());
  co_return co_await call.send_xml(200, list_xml(call.bucket, *list, *page));
}

net::Task<Status> list_versions(Call& call) {
  auto list = parse_list(call);
  if (!list) co_return co_await call.refuse(list.error());
  list->marker = call.get_query("key-marker");
  list->options.after = list->marker;
  list->version_marker = call.get_query("version-id-marker");
  if (!list->version_marker.empty() && (list->version_marker != "null" || list->marker.empty())) {
    Refusal refusal{&kInvalidArgument, "version-id-marker is null, beside a key-marker", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  auto page = co_await get_page(call, list->options);
  if (!page) co_return co_await call.refuse(page.error());
  co_return co_await call.send_xml(200, versions_xml(call.bucket, *list, *page));
}

}  // namespace millrace::gateway
