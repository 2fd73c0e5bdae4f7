// Sends the requests and reads the XML of the answers.
#include "transfer/objects.h"

#include <algorithm>

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "base/xml_text.h"
#include "net/where.h"
#include "net/xml_document.h"

namespace millrace::transfer {

namespace {

using net::XmlElement;

constexpr uint64_t kMaxXmlBytes = 64 << 20;
constexpr std::string_view kCrc32cHeader = "x-amz-checksum-crc32c";

std::string encoded(std::string_view text) {
  return net::percent_encode(text, net::Encode::kAll);
}

std::string without_quotes(std::string_view tag) {
  if (tag.size() >= 2 && tag.front() == '"' && tag.back() == '"') tag = tag.substr(1, tag.size() - 2);
  return std::string(tag);
}

int64_t iso_date_ms(std::string_view text) {
  const auto date = parse_iso_date(text);
  return date ? *date : 0;
}

Result<XmlElement> read_xml(net::Response& response, const net::Request& request) {
  const std::string body = MR_TRY(response.read_all(kMaxXmlBytes).within(request.url.text()));
  auto document = net::parse_xml(body);
  if (document) return document;
  return make_error(Code::kCorrupt, "{} answered something that is not XML: {}", request.url.text(),
                    document.error().message())
      .with_hint("is this the address of an object store?");
}

Result<XmlElement> call_for_xml(const Location& location, const net::Request& request) {
  net::Response response = MR_TRY(location.store->client().call(request));
  XmlElement root = MR_TRY(read_xml(response, request));
  // Completing an upload and copying answer 200 before they are done; a failure is then in the body.
  if (root.name == "Error") {
    return make_error(Code::kUnavailable, "{} {}: {}: {}", request.method, location.text(),
                      printable(root.get("Code"), 80), printable(root.get("Message"), 500));
  }
  return root;
}

net::Request make_request(std::string method, net::Url url) {
  net::Request request;
  request.method = std::move(method);
  request.url = std::move(url);
  return request;
}

Status call(const Location& location, const net::Request& request) {
  net::Response response = MR_TRY(location.store->client().call(request));
  response.finish();
  return {};
}

// Keys may hold characters that XML cannot: they are asked for percent-encoded.
Result<std::string> key_text(std::string_view text, bool is_encoded) {
  if (!is_encoded) return std::string(text);
  return net::decode_form(text);
}

Result<Listing> read_listing(const XmlElement& root) {
  Listing listing;
  const bool is_encoded = root.get("EncodingType") == "url";
  for (const XmlElement& node : root.children) {
    if (node.name == "CommonPrefixes")
      listing.prefixes.push_back(MR_TRY(key_text(node.get("Prefix"), is_encoded)));
    if (node.name != "Contents") continue;
    ObjectSummary object;
    object.key = MR_TRY(key_text(node.get("Key"), is_encoded));
    object.size = node.get_number("Size");
    object.etag = without_quotes(node.get("ETag"));
    object.modified_ms = iso_date_ms(node.get("LastModified"));
    if (node.find("Cached") != nullptr) object.is_cached = node.is_true("Cached");
    listing.objects.push_back(std::move(object));
  }
  return listing;
}

}  // namespace

Result<ListedPage> list_page(const Location& prefix, const PageOptions& options) {
  std::string query = fmt::format("list-type=2&encoding-type=url&max-keys={}", options.limit);
  if (!prefix.key.empty()) query += "&prefix=" + encoded(prefix.key);
  if (!options.delimiter.empty()) query += "&delimiter=" + encoded(options.delimiter);
  if (!options.after.empty()) query += "&start-after=" + encoded(options.after);
  const net::Request request = make_request("GET", prefix.store->url(prefix.bucket, "", query));
  const XmlElement root = MR_TRY(call_for_xml(prefix, request));
  return ListedPage{MR_TRY(read_listing(root)), root.is_true("IsTruncated")};
}

Status list_objects(const Location& prefix, Depth depth, const std::function<Status(Listing&)>& page) {
  std::string token;
  while (true) {
    std::string query = "list-type=2&encoding-type=url";
    if (!prefix.key.empty()) query += "&prefix=" + encoded(prefix.key);
    if (depth == Depth::kOneLevel) query += "&delimiter=%2F";
    if (!token.empty()) query += "&continuation-token=" + encoded(token);
    const net::Request request = make_request("GET", prefix.store->url(prefix.bucket, "", query));
    const XmlElement root = MR_TRY(call_for_xml(prefix, request));
    Listing listing = MR_TRY(read_listing(root));
    MR_TRY(page(listing));
    const std::string next(root.get("NextContinuationToken"));
    if (!root.is_true("IsTruncated") || next.empty() || next == token) return {};
    token = next;
  }
}

Result<std::vector<BucketSummary>> list_buckets(const Location& store) {
  const XmlElement root = MR_TRY(call_for_xml(store, make_request("GET", store.store->url("", ""))));
  std::vector<BucketSummary> buckets;
  const XmlElement* list = root.find("Buckets");
  if (list == nullptr) return buckets;
  for (const XmlElement& node : list->children)
    buckets.push_back({std::string(node.get("Name")), iso_date_ms(node.get("CreationDate"))});
  return buckets;
}

Status make_bucket(const Location& bucket, std::vector<net::HeaderField> headers) {
  net::Request request = make_request("PUT", bucket.store->url(bucket.bucket, ""));
  request.headers = std::move(headers);
  return call(bucket, std::move(request));
}

Status remove_bucket(const Location& bucket) {
  return call(bucket, make_request("DELETE", bucket.store->url(bucket.bucket, "")));
}

ObjectHead read_head(const std::vector<net::HeaderField>& headers) {
  ObjectHead head;
  head.headers = headers;
  bool composite = false;
  std::string whole_crc;  // said also of a part
  for (const auto& [name, value] : headers) {
    if (name == "content-length") head.size = parse_number<uint64_t>(value);
    if (name == "etag") head.etag = value;
    if (name == kCrc32cHeader) head.crc32c = value;
    if (name == "x-millrace-crc32c") whole_crc = value;
    if (name == "x-amz-checksum-type" && value == "COMPOSITE") composite = true;
    if (name == "last-modified") {
      auto date = parse_http_date(value);
      if (date) head.modified_ms = *date;
    }
  }
  // A checksum of checksums says nothing about the bytes in a row.
  if (composite || head.crc32c.find('-') != std::string::npos) head.crc32c.clear();
  if (head.crc32c.empty()) head.crc32c = std::move(whole_crc);
  return head;
}

Result<std::optional<ObjectHead>> find_head(const Location& object) {
  net::Request request = make_request("HEAD", object.url);
  request.headers.emplace_back("x-amz-checksum-mode", "ENABLED");
  net::Response response = MR_TRY(object.store->client().send(request));
  if (response.status() == 404) return std::optional<ObjectHead>();
  if (!response.is_success()) return net::answer_error(request, response);
  return std::optional(read_head(response.headers()));
}

Result<ObjectHead> get_head(const Location& object) {
  auto head = MR_TRY(find_head(object));
  if (head) return std::move(*head);
  return make_error(Code::kNotFound, "{} does not exist", object.text())
      .with_hint("millrace ls shows what there is");
}

namespace {

void add_crc(net::Request& request, const std::string& crc32c) {
  if (!crc32c.empty()) request.headers.emplace_back(kCrc32cHeader, net::to_base64(crc32c));
}

Result<std::string> put_for_tag(const Location& object, const net::Request& request) {
  net::Response response = MR_TRY(object.store->client().call(request));
  const std::string* tag = response.find_header("etag");
  std::string etag = tag != nullptr ? *tag : "";
  response.finish();
  return etag;
}

}  // namespace

namespace {

// Below it the question costs more than the way through another node.
constexpr uint64_t kDirectBytes = 1 << 20;

// The nodes of a cluster that will hold an object of that size, the best first. Any other node takes it as
// well, so nothing is lost if the answer is wrong or missing.
std::vector<std::string> find_places(const Location& object, uint64_t size) {
  const bool signed_address = object.url.query.find("Signature=") != std::string::npos;
  if (size < kDirectBytes || object.url.scheme != "http" || signed_address || !object.store->tells_places())
    return {};
  net::Request request = make_request("HEAD", object.url);
  request.url.query = fmt::format("place={}", size);
  request.repeat = net::Repeat::kNever;
  auto response = object.store->client().send(request);
  if (!response) return {};
  const std::string* const text = response->find_header(net::kWhereHeader);
  const auto where = text == nullptr ? std::nullopt : net::parse_where(*text);
  if (!where) object.store->note_no_places();
  std::vector<std::string> places;
  for (const std::string& place : where ? where->holders : std::vector<std::string>()) {
    if (!place.empty()) places.push_back(place);
  }
  return places;
}

}  // namespace

namespace {

constexpr std::string_view kOnlyNew = "if-none-match";

// Whether somebody with the same mark wrote the object before.
bool is_written(const Location& object, const std::string& mark) {
  const auto head = find_head(object);
  if (!head || !*head) return false;
  return std::ranges::any_of((*head)->headers, [&](const net::HeaderField& header) {
    return net::equal_names(header.first, kMarkHeader) && header.second == mark;
  });
}

Error exists_already(const Location& object) {
  return make_error(net::kConditionNotMet, "{} is there already", object.text())
      .with_hint("write to another place, or remove what is there");
}

}  // namespace

Result<std::string> put_object(const Location& object, net::RequestBody body, const std::string& crc32c,
                               const PutOptions& options) {
  net::Request request = make_request("PUT", object.url);
  request.preferred = find_places(object, net::body_size(body));
  request.headers = options.headers;
  request.body = std::move(body);
  add_crc(request, crc32c);
  if (options.once.empty()) return put_for_tag(object, request);
  request.headers.emplace_back(kMarkHeader, options.once);
  request.headers.emplace_back(kOnlyNew, "*");
  auto put = put_for_tag(object, request);
  if (put || put.error().code() != Code::kExists) return put;
  if (is_written(object, options.once)) return std::string();
  return exists_already(object);
}

namespace {
net::HeaderField copy_source(const Location& from) {
  return {"x-amz-copy-source", "/" + from.bucket + "/" + net::percent_encode(from.key, net::Encode::kPath)};
}
}  // namespace

Result<std::string> copy_object(const Location& from, const Location& to) {
  net::Request request = make_request("PUT", to.url);
  request.headers.push_back(copy_source(from));
  const XmlElement root = MR_TRY(call_for_xml(to, request));
  return without_quotes(root.get("ETag"));
}

Status remove_object(const Location& object) {
  return call(object, make_request("DELETE", object.url));
}

Status remove_objects(const Location& bucket, const std::vector<std::string>& keys) {
  MR_ASSERT(keys.size() <= kMostRemovals, keys.size());
  std::string body = "<Delete><Quiet>true</Quiet>";
  const size_t empty = body.size();
  for (const std::string& key : keys) {
    if (!net::fits_xml(key)) {
      MR_TRY(remove_object(bucket.with_key(key)));
      continue;
    }
    body += "<Object><Key>";
    append_escaped(body, key);
    body += "</Key></Object>";
  }
  if (body.size() == empty) return {};
  body += "</Delete>";
  net::Request request = make_request("POST", bucket.store->url(bucket.bucket, "", "delete="));
  request.body = std::string_view(body);
  request.repeat = net::Repeat::kSafe;
  request.headers.emplace_back("content-md5", net::to_base64(net::digest(net::DigestKind::kMd5, body)));
  const XmlElement answer = MR_TRY(call_for_xml(bucket, request));
  if (const XmlElement* failed = answer.find("Error")) {
    return make_error(Code::kDenied, "{}/{} could not be removed: {}: {}",
                      bucket.store->text(bucket.bucket, ""), printable(failed->get("Key")),
                      printable(failed->get("Code"), 80), printable(failed->get("Message"), 500));
  }
  return {};
}

Result<std::string> begin_upload(const Location& object, const PutOptions& options) {
  net::Request request = make_request("POST", object.store->url(object.bucket, object.key, "uploads="));
  request.headers = options.headers;
  if (!options.once.empty()) request.headers.emplace_back(kMarkHeader, options.once);
  // Of the whole content: readers that take it in other pieces can compare it too.
  request.headers.emplace_back("x-amz-checksum-algorithm", "CRC32C");
  request.headers.emplace_back("x-amz-checksum-type", "FULL_OBJECT");
  // Begun twice, one of the two stays empty and is swept away with the unfinished ones.
  request.repeat = net::Repeat::kSafe;
  const XmlElement root = MR_TRY(call_for_xml(object, request));
  std::string upload(root.get("UploadId"));
  if (upload.empty()) return make_error(Code::kCorrupt, "{}: the server gave no upload id", object.text());
  return upload;
}

namespace {
net::Url part_url(const Location& object, const std::string& upload, int number) {
  return object.store->url(object.bucket, object.key,
                           fmt::format("partNumber={}&uploadId={}", number, encoded(upload)));
}
}  // namespace

Result<Part> copy_part(const Location& object, const std::string& upload, int number,
                       const PartSource& source) {
  net::Request request = make_request("PUT", part_url(object, upload, number));
  request.headers.push_back(copy_source(source.object));
  request.headers.emplace_back("x-amz-copy-source-range",
                               fmt::format("bytes={}-{}", source.offset, source.offset + source.size - 1));
  request.headers.emplace_back("x-amz-copy-source-if-match", source.etag);
  const XmlElement root = MR_TRY(call_for_xml(object, request));
  std::string etag(root.get("ETag"));
  if (etag.empty())
    return make_error(Code::kCorrupt, "{}: part {} was answered without an etag", object.text(), number);
  return Part{number, source.size, std::move(etag), std::string(root.get("ChecksumCRC32C"))};
}

Result<Part> put_part(const Location& object, const std::string& upload, int number, net::RequestBody body,
                      const std::string& crc32c) {
  net::Request request = make_request("PUT", part_url(object, upload, number));
  request.body = std::move(body);
  add_crc(request, crc32c);
  const uint64_t size = net::body_size(request.body);
  std::string etag = MR_TRY(put_for_tag(object, request));
  if (etag.empty())
    return make_error(Code::kCorrupt, "{}: part {} was answered without an etag", object.text(), number);
  return Part{number, size, std::move(etag), crc32c.empty() ? "" : net::to_base64(crc32c)};
}

Result<std::vector<Part>> list_parts(const Location& object, const std::string& upload) {
  std::vector<Part> parts;
  std::string marker;
  while (true) {
    std::string query = "uploadId=" + encoded(upload);
    if (!marker.empty()) query += "&part-number-marker=" + encoded(marker);
    const XmlElement root = MR_TRY(
        call_for_xml(object, make_request("GET", object.store->url(object.bucket, object.key, query))));
    for (const XmlElement& node : root.children) {
      if (node.name != "Part") continue;
      parts.push_back({static_cast<int>(std::min<uint64_t>(node.get_number("PartNumber"), INT32_MAX)),
                       node.get_number("Size"), std::string(node.get("ETag")),
                       std::string(node.get("ChecksumCRC32C"))});
    }
    const std::string next(root.get("NextPartNumberMarker"));
    if (!root.is_true("IsTruncated") || next.empty() || next == marker) return parts;
    marker = next;
  }
}

Result<std::vector<UploadSummary>> list_uploads(const Location& prefix) {
  std::vector<UploadSummary> uploads;
  std::string key_marker, id_marker;
  while (true) {
    std::string query = "uploads=&encoding-type=url&prefix=" + encoded(prefix.key);
    if (!key_marker.empty())
      query += "&key-marker=" + encoded(key_marker) + "&upload-id-marker=" + encoded(id_marker);
    const XmlElement root =
        MR_TRY(call_for_xml(prefix, make_request("GET", prefix.store->url(prefix.bucket, "", query))));
    const bool is_encoded = root.get("EncodingType") == "url";
    for (const XmlElement& node : root.children) {
      if (node.name != "Upload") continue;
      uploads.push_back({MR_TRY(key_text(node.get("Key"), is_encoded)), std::string(node.get("UploadId")),
                         iso_date_ms(node.get("Initiated"))});
    }
    const std::string next = MR_TRY(key_text(root.get("NextKeyMarker"), is_encoded));
    const std::string next_id(root.get("NextUploadIdMarker"));
    const bool stands = next == key_marker && next_id == id_marker;
    if (root.get("IsTruncated") != "true" || next.empty() || stands) return uploads;
    key_marker = next;
    id_marker = next_id;
  }
}

Result<std::optional<std::string>> find_upload(const Location& object) {
  std::optional<std::string> latest;
  int64_t latest_begun = 0;
  for (UploadSummary& upload : MR_TRY(list_uploads(object))) {
    if (upload.key != object.key || (latest && upload.begun_ms < latest_begun)) continue;
    latest = std::move(upload.id);
    latest_begun = upload.begun_ms;
  }
  return latest;
}

Status finish_upload(const Location& object, const std::string& upload, const std::vector<Part>& parts,
                     const PutOptions& options) {
  std::string body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const Part& part : parts) {
    body +=
        fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>", part.number, escape_xml(part.etag));
    if (!part.crc32c.empty()) body += fmt::format("<ChecksumCRC32C>{}</ChecksumCRC32C>", part.crc32c);
    body += "</Part>";
  }
  body += "</CompleteMultipartUpload>";
  net::Request request =
      make_request("POST", object.store->url(object.bucket, object.key, "uploadId=" + encoded(upload)));
  request.body = std::string_view(body);
  if (!options.once.empty()) request.headers.emplace_back(kOnlyNew, "*");
  auto done = call_for_xml(object, request);
  if (done) return {};
  if (options.once.empty()) return done.take_error();
  const bool was_refused = done.error().code() == Code::kExists;
  // A repeated request finds the upload gone.
  if (!was_refused && done.error().code() != Code::kNotFound) return done.take_error();
  const bool written = is_written(object, options.once);
  if (was_refused) static_cast<void>(abort_upload(object, upload));
  if (written) return {};
  return was_refused ? exists_already(object) : done.take_error();
}

Status abort_upload(const Location& object, const std::string& upload) {
  return call(object, make_request("DELETE", object.store->url(object.bucket, object.key,
                                                               "uploadId=" + encoded(upload))));
}

}  // namespace millrace::transfer
