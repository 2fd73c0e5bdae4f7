// Listing in key order, page by page.
#include "cluster/buckets.h"

#include <algorithm>
#include <charconv>

#include "base/clock.h"
#include "cluster/body.h"
#include "cluster/xml.h"
#include "net/digest.h"

namespace millrace::cluster {

namespace {

constexpr size_t kMaxKeys = 1000;
constexpr size_t kMaxConfigurationBody = 64 << 10;

void add_owner(XmlWriter& xml) {
  xml.open("Owner");
  xml.add("ID", "millrace");
  xml.add("DisplayName", "millrace");
  xml.close();
}

struct ListRequest {
  store::ListOptions options;
  bool version2 = false;
  bool url_encoded = false;
  bool with_owner = false;
  std::string marker;       // version 1
  std::string start_after;  // version 2
  std::string token;        // version 2, as the client sent it
};

Result<ListRequest> parse_list(const Call& call) {
  ListRequest list;
  list.version2 = call.get_query("list-type") == "2";
  list.options.prefix = call.get_query("prefix");
  list.options.delimiter = call.get_query("delimiter");
  list.url_encoded = call.get_query("encoding-type") == "url";
  if (const auto limit = call.find_query("max-keys"); limit && !limit->empty()) {
    size_t keys = 0;
    const auto [end, problem] = std::from_chars(limit->data(), limit->data() + limit->size(), keys);
    if (problem != std::errc() || end != limit->data() + limit->size())
      return make_error(Code::kInvalid, "max-keys is not a number");
    list.options.limit = std::min(keys, kMaxKeys);
  }
  if (list.version2) {
    list.with_owner = call.get_query("fetch-owner") == "true";
    list.start_after = call.get_query("start-after");
    list.token = call.get_query("continuation-token");
    list.options.after = list.start_after;
    if (!list.token.empty()) {
      auto key = net::from_base64(list.token);
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
    if (!list.token.empty()) xml.add("ContinuationToken", list.token);
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
    if (list.with_owner) add_owner(xml);
    xml.close();
  }
  for (const store::ListEntry& entry : page.entries) {
    if (!entry.is_prefix) continue;
    xml.open("CommonPrefixes");
    xml.add("Prefix", encoded(list, entry.key));
    xml.close();
  }
  return xml.finish();
}

}  // namespace

net::Task<Status> list_buckets(Call& call) {
  call.operation = "list_buckets";
  XmlWriter xml("ListAllMyBucketsResult");
  add_owner(xml);
  xml.open("Buckets");
  for (const auto& bucket : call.store().buckets()) {
    if (!call.caller.may(Right::kRead, bucket->name) && !call.caller.may(Right::kWrite, bucket->name))
      continue;
    xml.open("Bucket");
    xml.add("Name", bucket->name);
    xml.add("CreationDate", format_iso_date(bucket->created_ms));
    xml.close();
  }
  co_return co_await call.send_xml(200, xml.finish());
}

net::Task<Status> create_bucket(Call& call) {
  call.operation = "create_bucket";
  auto text = co_await read_document(call, kMaxConfigurationBody);
  if (!text) co_return co_await call.refuse(text.error(), About::kBucket);
  auto region = parse_create_bucket(*text);
  if (!region) co_return co_await call.refuse(region.error(), About::kBucket);
  if (auto good = store::check_bucket_name(call.bucket); !good) {
    Refusal refusal{"InvalidBucketName", good.error().message(), good.error().hint()};
    co_return co_await call.refuse(std::move(refusal));
  }
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
  head.add("x-amz-bucket-region", "us-east-1");
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
  store::ListPage page;
  if (list->options.limit > 0) {
    store::Store& store = call.store();
    auto work = [&store, bucket = call.bucket, options = list->options] {
      return store.list(bucket, options);
    };
    auto listed = co_await call.blocking_long(std::move(work));
    if (!listed) co_return co_await call.refuse(listed.error(), About::kBucket);
    page = listed.take();
  }
  co_return co_await call.send_xml(200, list_xml(call.bucket, *list, page));
}

}  // namespace millrace::cluster
