// Lists uploads under way, and the parts of one.
#include <algorithm>
#include <set>

#include "base/clock.h"
#include "gateway/conditions.h"
#include "gateway/list_objects.h"
#include "gateway/multipart.h"
#include "gateway/object_checksum.h"
#include "gateway/s3_xml.h"

namespace millrace::gateway {

namespace {

using Parts = std::vector<store::PartStatus>;

net::Task<Result<Parts>> get_parts(Call& call) {
  std::function<void(store::Done<Parts>)> start = [&call](store::Done<Parts> done) {
    call.objects().parts(upload_name(call), std::move(done));
  };
  co_return co_await call.ask<Parts>(std::move(start));
}

}  // namespace

net::Task<Status> list_parts(Call& call) {
  auto limit = get_limit(call, "max-parts");
  if (!limit) co_return co_await call.refuse(limit.error());
  auto marker = get_number(call, "part-number-marker", 0);
  if (!marker) co_return co_await call.refuse(marker.error());
  const uint64_t after = *marker;
  auto status = co_await get_upload(call);
  if (!status) co_return co_await call.refuse(status.error());
  auto parts = co_await get_parts(call);
  if (!parts) co_return co_await call.refuse(parts.error());
  const auto again = std::ranges::unique(*parts, {}, &store::PartStatus::number);
  parts->erase(again.begin(), again.end());
  XmlWriter xml("ListPartsResult");
  xml.add("Bucket", call.bucket);
  xml.add("Key", call.key);
  xml.add("UploadId", call.get_query("uploadId"));
  xml.add("PartNumberMarker", after);
  xml.add("MaxParts", *limit);
  add_owner(xml, "Initiator");
  add_owner(xml, "Owner");
  xml.add("StorageClass", "STANDARD");
  if (const auto form = find_form(status->headers); form && *form) {
    xml.add("ChecksumAlgorithm", net::checksum_algorithm((*form)->kind));
    xml.add("ChecksumType", (*form)->whole ? "FULL_OBJECT" : "COMPOSITE");
  }
  size_t listed = 0;
  uint64_t last = after;
  bool truncated = false;
  for (const store::PartStatus& part : (*parts)) {
    if (part.number <= after) continue;
    if (listed == *limit) {
      truncated = true;
      break;
    }
    xml.open("Part");
    xml.add("PartNumber", uint64_t{part.number});
    xml.add("LastModified", format_iso_date(part.modified_ms));
    xml.add("ETag", quoted_etag(part.etag));
    xml.add("Size", part.size);
    add_checksums(xml, part.headers);
    xml.close();
    last = part.number;
    ++listed;
  }
  xml.add("NextPartNumberMarker", last);
  xml.add("IsTruncated", truncated ? "true" : "false");
  co_return co_await call.send_xml(200, xml.finish());
}

namespace {

struct UploadQuery {
  std::string prefix;
  std::string delimiter;
  std::string key_marker;
  std::string upload_marker;
  bool url_encoded = false;
  uint64_t limit = 0;

  std::string shown(const std::string& text) const {
    return url_encoded ? net::percent_encode(text, net::Encode::kPath) : text;
  }
  // What the key is listed under; nothing: by itself.
  std::optional<std::string> common_prefix(std::string_view key) const {
    if (delimiter.empty()) return std::nullopt;
    const size_t at = key.find(delimiter, prefix.size());
    if (at == std::string_view::npos) return std::nullopt;
    return std::string(key.substr(0, at + delimiter.size()));
  }
};

Result<UploadQuery> read_upload_query(const Call& call) {
  UploadQuery query;
  query.prefix = call.get_query("prefix");
  query.delimiter = call.get_query("delimiter");
  query.key_marker = call.get_query("key-marker");
  query.upload_marker = call.get_query("upload-id-marker");
  query.url_encoded = MR_TRY(is_url_encoded(call));
  query.limit = MR_TRY(get_limit(call, "max-uploads"));
  return query;
}

struct UploadPage {
  std::vector<store::UploadStatus> uploads;
  std::set<std::string> prefixes;
  bool truncated = false;
  std::string next_key;  // or a common prefix
  std::string next_upload;
};

// Without an upload's id the marker ends a key: all of its uploads were listed. A common prefix as the marker
// ends all keys under it.
UploadPage make_page(std::vector<store::UploadStatus> uploads, const UploadQuery& query) {
  UploadPage page;
  bool passed_marker = false;
  for (store::UploadStatus& upload : uploads) {
    if (!upload.key.starts_with(query.prefix) || upload.key < query.key_marker) continue;
    const auto common = query.common_prefix(upload.key);
    if (common && (*common <= query.key_marker || page.prefixes.contains(*common))) continue;
    if (!common && upload.key == query.key_marker && !passed_marker) {
      passed_marker = upload.upload == query.upload_marker;
      continue;
    }
    if (page.uploads.size() + page.prefixes.size() == query.limit) {
      page.truncated = query.limit > 0;
      break;
    }
    page.next_key = common ? *common : upload.key;
    page.next_upload = common ? "" : upload.upload;
    if (common) {
      page.prefixes.insert(*common);
    } else {
      page.uploads.push_back(std::move(upload));
    }
  }
  return page;
}

std::string uploads_xml(const std::string& bucket, const UploadQuery& query, const UploadPage& page) {
  XmlWriter xml("ListMultipartUploadsResult");
  xml.add("Bucket", bucket);
  xml.add("KeyMarker", query.shown(query.key_marker));
  xml.add("UploadIdMarker", query.upload_marker);
  xml.add("Prefix", query.shown(query.prefix));
  if (!query.delimiter.empty()) xml.add("Delimiter", query.shown(query.delimiter));
  if (query.url_encoded) xml.add("EncodingType", "url");
  xml.add("MaxUploads", query.limit);
  xml.add("IsTruncated", page.truncated ? "true" : "false");
  if (page.truncated) {
    xml.add("NextKeyMarker", query.shown(page.next_key));
    xml.add("NextUploadIdMarker", page.next_upload);
  }
  for (const store::UploadStatus& upload : page.uploads) {
    xml.open("Upload");
    xml.add("Key", query.shown(upload.key));
    xml.add("UploadId", upload.upload);
    add_owner(xml, "Initiator");
    add_owner(xml, "Owner");
    xml.add("StorageClass", "STANDARD");
    xml.add("Initiated", format_iso_date(upload.initiated_ms));
    if (const auto form = find_form(upload.headers); form && *form) {
      xml.add("ChecksumAlgorithm", net::checksum_algorithm((*form)->kind));
      xml.add("ChecksumType", (*form)->whole ? "FULL_OBJECT" : "COMPOSITE");
    }
    xml.close();
  }
  for (const std::string& prefix : page.prefixes) {
    xml.open("CommonPrefixes");
    xml.add("Prefix", query.shown(prefix));
    xml.close();
  }
  return xml.finish();
}

}  // namespace

net::Task<Status> list_uploads(Call& call) {
  auto query = read_upload_query(call);
  if (!query) co_return co_await call.refuse(query.error());
  using Uploads = std::vector<store::UploadStatus>;
  std::function<void(store::Done<Uploads>)> list = [&call](store::Done<Uploads> done) {
    call.objects().uploads(call.bucket, std::move(done));
  };
  auto uploads = co_await call.ask<Uploads>(std::move(list));
  if (!uploads) co_return co_await call.refuse(uploads.error());
  co_return co_await call.send_xml(200, uploads_xml(call.bucket, *query, make_page(uploads.take(), *query)));
}

}  // namespace millrace::gateway
