// Listing in key order, page by page.
#include "cluster/buckets.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/clock.h"
#include "cluster/body.h"
#include "net/digest.h"

namespace millrace::cluster {

Result<uint64_t> get_number(const Call& call, std::string_view name, uint64_t usual) {
  const auto text = call.find_query(name);
  if (!text || text->empty()) return usual;
  uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (problem != std::errc() || end != text->data() + text->size())
    return make_error(Code::kInvalid, "{} is not a number", name);
  return number;
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

constexpr std::string_view kRegion = "us-east-1";
constexpr size_t kMaxConfigurationBody = 64 << 10;

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
  store::Store& store = call.store();
  auto work = [&store, bucket = call.bucket, options] { return store.list(bucket, options); };
  co_return co_await call.blocking_long(std::move(work));
}

}  // namespace

Status check_new_bucket(const std::string& name, store::NameRule names) {
  auto good = store::check_bucket_name(name, names);
  if (good) return {};
  return make_error(Code::kInvalid, "InvalidBucketName: {}", good.error().message())
      .with_hint(std::string(good.error().hint()));
}

net::Task<Status> list_buckets(Call& call) {
  constexpr uint64_t kMostBuckets = 10'000;
  call.operation = "list_buckets";
  const std::string prefix = call.get_query("prefix");
  const std::string region = call.get_query("bucket-region");
  auto limit = get_number(call, "max-buckets", kMostBuckets);
  if (limit && (*limit == 0 || *limit > kMostBuckets))
    limit = make_error(Code::kInvalid, "max-buckets is from 1 to {}", kMostBuckets);
  if (!limit) co_return co_await call.refuse(limit.error(), About::kBucket);
  auto after = net::from_base64(call.get_query("continuation-token"));
  if (!after) {
    Refusal refusal{"InvalidArgument", "the continuation token is not one of ours", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  XmlWriter xml("ListAllMyBucketsResult");
  add_owner(xml, "Owner");
  xml.open("Buckets");
  uint64_t listed = 0;
  std::string last;
  std::string next;
  for (const auto& bucket : call.store().buckets()) {
    if (!call.caller.may(Right::kRead, bucket->name) && !call.caller.may(Right::kWrite, bucket->name))
      continue;
    if (!bucket->name.starts_with(prefix) || bucket->name <= *after) continue;
    if (!region.empty() && region != kRegion) continue;
    if (listed == *limit) {
      next = net::to_base64(last);
      break;
    }
    xml.open("Bucket");
    xml.add("Name", bucket->name);
    xml.add("CreationDate", format_iso_date(bucket->created_ms));
    xml.add("BucketRegion", kRegion);
    xml.close();
    last = bucket->name;
    ++listed;
  }
  xml.close();
  if (!next.empty()) xml.add("ContinuationToken", next);
  if (!prefix.empty()) xml.add("Prefix", prefix);
  co_return co_await call.send_xml(200, xml.finish());
}

net::Task<Status> create_bucket(Call& call, store::NameRule names) {
  call.operation = "create_bucket";
  auto text = co_await read_document(call, kMaxConfigurationBody);
  if (!text) co_return co_await call.refuse(text.error(), About::kBucket);
  auto region = parse_create_bucket(*text);
  if (!region) co_return co_await call.refuse(region.error(), About::kBucket);
  auto good = check_new_bucket(call.bucket, names);
  if (!good && !call.store().find_bucket(call.bucket))
    co_return co_await call.refuse(good.error(), About::kBucket);
  store::Store& store = call.store();
  auto work = [&store, name = call.bucket] { return store.create_bucket(name, {}); };
  auto created = co_await call.blocking(std::move(work));
  if (!created) co_return co_await call.refuse(created.error(), About::kBucket);
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Location", "/" + call.bucket);
  co_return co_await call.connection.send({});
}

net::Task<Status> head_bucket(Call& call) {
  call.operation = "head_bucket";
  net::HeadBuilder& head = call.connection.start(200);
  head.add("x-amz-bucket-region", kRegion);
  co_return co_await call.connection.send({});
}

net::Task<Status> delete_bucket(Call& call) {
  call.operation = "delete_bucket";
  store::Store& store = call.store();
  auto work = [&store, name = call.bucket] { return store.remove_bucket(name); };
  auto removed = co_await call.blocking(std::move(work));
  if (!removed && removed.error().code() == Code::kExists) {
    Refusal refusal{"BucketNotEmpty", removed.error().message(), removed.error().hint()};
    co_return co_await call.refuse(std::move(refusal));
  }
  if (!removed) co_return co_await call.refuse(removed.error(), About::kBucket);
  co_return co_await call.send_empty(204);
}

net::Task<Status> list_objects(Call& call) {
  call.operation = "list";
  auto list = parse_list(call);
  if (!list) co_return co_await call.refuse(list.error(), About::kBucket);
  auto page = co_await get_page(call, list->options);
  if (!page) co_return co_await call.refuse(page.error(), About::kBucket);
  co_return co_await call.send_xml(200, list_xml(call.bucket, *list, *page));
}

net::Task<Status> list_versions(Call& call) {
  call.operation = "list_versions";
  auto list = parse_list(call);
  if (!list) co_return co_await call.refuse(list.error(), About::kBucket);
  list->marker = call.get_query("key-marker");
  list->options.after = list->marker;
  list->version_marker = call.get_query("version-id-marker");
  if (!list->version_marker.empty() && (list->version_marker != "null" || list->marker.empty())) {
    Refusal refusal{"InvalidArgument", "version-id-marker is null, beside a key-marker", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  auto page = co_await get_page(call, list->options);
  if (!page) co_return co_await call.refuse(page.error(), About::kBucket);
  co_return co_await call.send_xml(200, versions_xml(call.bucket, *list, *page));
}

}  // namespace millrace::cluster
