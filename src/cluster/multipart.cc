// Parts are objects without a name until the upload is completed.
#include "cluster/multipart.h"

#include <algorithm>
#include <charconv>

#include "base/clock.h"
#include "base/text.h"
#include "cluster/body.h"
#include "cluster/read.h"
#include "cluster/write.h"
#include "cluster/xml.h"

namespace millrace::cluster {

namespace {

using store::NameValue;

constexpr size_t kMaxCompleteBody = 4 << 20;
constexpr size_t kMaxListed = 1000;
constexpr std::string_view kAlgorithm = "x-amz-checksum-algorithm";
constexpr std::string_view kType = "x-amz-checksum-type";

Result<unsigned> part_number(const Call& call) {
  const std::string text = call.get_query("partNumber");
  unsigned number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < 1 || number > store::kMaxParts) {
    return make_error(Code::kInvalid, "partNumber must be 1 to {}", store::kMaxParts);
  }
  return number;
}

Result<size_t> get_limit(const Call& call, std::string_view name) {
  const auto text = call.find_query(name);
  if (!text || text->empty()) return kMaxListed;
  size_t limit = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), limit);
  if (problem != std::errc() || end != text->data() + text->size())
    return make_error(Code::kInvalid, "{} is not a number", name);
  return std::min(limit, kMaxListed);
}

store::PartOptions part_options(const Call& call, unsigned number) {
  store::PartOptions options;
  options.bucket = call.bucket;
  options.key = call.key;
  options.upload = call.get_query("uploadId");
  options.number = number;
  return options;
}

void add_checksums(XmlWriter& xml, const std::vector<NameValue>& headers) {
  for (const auto& [name, value] : headers) {
    const auto kind = net::find_checksum_kind(name);
    if (!kind) continue;
    std::string element = name.substr(15);
    std::transform(element.begin(), element.end(), element.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    xml.add("Checksum" + element, value);
  }
}

// MD5 over the parts' MD5s where every part has one, as S3 does; else over their names. "-N" either way.
std::string multipart_etag(const std::vector<CompletedPart>& parts) {
  net::Digest digest(net::DigestKind::kMd5);
  for (const CompletedPart& part : parts) {
    auto raw = part.etag.size() == 32 ? net::from_hex(part.etag) : Result<std::string>(part.etag);
    digest.add(raw ? *raw : part.etag);
  }
  return fmt::format("{}-{}", net::to_hex(digest.finish()), parts.size());
}

const std::string* find_header(const std::vector<NameValue>& headers, std::string_view name) {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const NameValue& header) { return header.first == name; });
  return found == headers.end() ? nullptr : &found->second;
}

// What the client says about each part must be what was stored with it.
Status check_parts(const std::vector<CompletedPart>& wanted, const std::vector<store::PartStatus>& stored) {
  for (const CompletedPart& part : wanted) {
    const auto found = std::find_if(stored.begin(), stored.end(), [&](const store::PartStatus& status) {
      return status.number == part.number;
    });
    if (found == stored.end())
      return make_error(Code::kInvalid, "InvalidPart: part {} was not uploaded", part.number);
    for (const NameValue& checksum : part.checksums) {
      const std::string* kept = find_header(found->headers, checksum.first);
      if (kept != nullptr && *kept != checksum.second) {
        return make_error(Code::kInvalid, "InvalidPart: part {} has another {}", part.number, checksum.first);
      }
    }
  }
  return {};
}

uint64_t from_big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::string to_big_endian(uint64_t value, size_t size) {
  std::string bytes(size, 0);
  for (size_t i = size; i-- > 0; value >>= 8) bytes[i] = static_cast<char>(value & 0xff);
  return bytes;
}

// The object's own checksum, where the client chose an algorithm and every part has it: of the whole content,
// put together from the parts' (FULL_OBJECT, CRCs only), or a checksum of checksums in the form "…-N"
// (COMPOSITE).
Result<std::vector<NameValue>> object_checksum(const std::vector<NameValue>& upload_headers,
                                               const std::vector<CompletedPart>& wanted,
                                               const std::vector<store::PartStatus>& stored) {
  std::vector<NameValue> none;
  const std::string* algorithm = find_header(upload_headers, kAlgorithm);
  const auto kind = algorithm != nullptr ? net::find_checksum_algorithm(*algorithm) : std::nullopt;
  if (!kind) return none;
  const std::string* type = find_header(upload_headers, kType);
  const auto crc = net::find_crc(*kind);
  const bool whole = crc && (*kind == net::DigestKind::kCrc64Nvme ||
                             (type != nullptr && net::equal_names(*type, "FULL_OBJECT")));
  const std::string name(net::checksum_header(*kind));
  net::Digest composite(*kind);
  uint64_t combined = 0;
  size_t width = 0;
  for (const CompletedPart& part : wanted) {
    const auto found = std::find_if(stored.begin(), stored.end(), [&](const store::PartStatus& status) {
      return status.number == part.number;
    });
    const std::string* value = found == stored.end() ? nullptr : find_header(found->headers, name);
    if (value == nullptr) return none;
    const std::string raw = MR_TRY(net::from_base64(*value));
    composite.add(raw);
    if (!whole) continue;
    combined =
        width == 0 ? from_big_endian(raw) : crc_join(*crc, combined, from_big_endian(raw), found->size);
    width = raw.size();
  }
  if (whole)
    return std::vector<NameValue>{{name, net::to_base64(to_big_endian(combined, width))},
                                  {std::string(kType), "FULL_OBJECT"}};
  return std::vector<NameValue>{
      {name, fmt::format("{}-{}", net::to_base64(composite.finish()), wanted.size())},
      {std::string(kType), "COMPOSITE"}};
}

}  // namespace

net::Task<Status> create_upload(Call& call) {
  call.operation = "create_upload";
  store::PutOptions options;
  options.bucket = call.bucket;
  options.key = call.key;
  auto headers = kept_headers(call);
  if (!headers) co_return co_await call.refuse(headers.error(), About::kObject);
  options.headers = headers.take();
  const std::string algorithm(call.request().get(kAlgorithm));
  if (!algorithm.empty()) {
    if (!net::find_checksum_algorithm(algorithm)) {
      Refusal refusal{"InvalidRequest",
                      "checksum algorithm " + printable(algorithm, 32) + " is not known here", ""};
      co_return co_await call.refuse(std::move(refusal));
    }
    options.headers.emplace_back(kAlgorithm, algorithm);
    if (const auto type = call.request().find(kType)) options.headers.emplace_back(kType, *type);
  }
  if (const auto tagging = call.request().find("x-amz-tagging")) {
    auto tags = parse_tagging_header(*tagging);
    if (!tags) co_return co_await call.refuse(tags.error(), About::kObject);
    options.tags = tags.take();
  }
  store::Store& store = call.store();
  auto work = [&store, options] { return store.create_upload(options); };
  auto upload = co_await call.blocking(std::move(work));
  if (!upload) co_return co_await call.refuse(upload.error(), About::kBucket);
  XmlWriter xml("InitiateMultipartUploadResult");
  xml.add("Bucket", call.bucket);
  xml.add("Key", call.key);
  xml.add("UploadId", *upload);
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/xml");
  if (!algorithm.empty()) head.add(kAlgorithm, algorithm);
  const std::string body = xml.finish();
  co_return co_await call.connection.send(body);
}

net::Task<Status> put_part(Call& call) {
  call.operation = "put_part";
  auto number = part_number(call);
  if (!number) co_return co_await call.refuse(number.error(), About::kUpload);
  const auto bucket = call.store().find_bucket(call.bucket);
  auto body = UploadBody::open(call, bucket ? bucket->settings.etag : store::EtagMode::kAuto);
  if (!body) co_return co_await call.refuse(body.error(), About::kUpload);
  store::PartOptions options = part_options(call, *number);
  options.size = body->size();
  auto writer = call.store().put_part(std::move(options));
  if (!writer) co_return co_await call.refuse(writer.error(), About::kUpload);
  auto part = co_await receive_object(call, *body, **writer);
  if (!part) co_return co_await call.refuse(part.error(), About::kUpload);
  net::HeadBuilder& head = call.connection.start(200);
  head.add("ETag", quoted_etag((*part)->record().etag));
  for (const auto& [name, value] : body->checksums()) head.add(name, value);
  co_return co_await call.connection.send({});
}

net::Task<Status> copy_part(Call& call) {
  call.operation = "copy_part";
  auto number = part_number(call);
  if (!number) co_return co_await call.refuse(number.error(), About::kUpload);
  auto source = co_await open_copy_source(call);
  if (!source) co_return co_await call.refuse(source.error(), About::kObject);
  ByteRange range{0, (*source)->record().size};
  if (const auto text = call.request().find("x-amz-copy-source-range")) {
    const ParsedRange parsed = parse_range(*text, range.size);
    // Unlike a GET, a copy is not cut to what is there: the part would silently be shorter than the client
    // counts on.
    const std::string full =
        fmt::format("bytes={}-{}", parsed.range.offset, parsed.range.offset + parsed.range.size - 1);
    if (parsed.kind != RangeKind::kPart || *text != full) {
      Refusal refusal{"InvalidRange", "x-amz-copy-source-range is not a range of the source", ""};
      co_return co_await call.refuse(std::move(refusal));
    }
    range = parsed.range;
  }
  store::PartOptions options = part_options(call, *number);
  options.size = range.size;
  auto writer = call.store().put_part(std::move(options));
  if (!writer) co_return co_await call.refuse(writer.error(), About::kUpload);
  store::Store& store = call.store();
  std::shared_ptr<store::Writer> target = writer.take();
  const Md5 md5 = range.size <= kMd5Bytes ? Md5::kYes : Md5::kNo;
  auto work = [&store, object = *source, target, range,
               md5]() -> Result<std::shared_ptr<const store::Object>> {
    std::string etag = MR_TRY(copy_bytes(store, *object, range.offset, range.size, *target, md5));
    return finish_blocking(*target, {std::move(etag), {}});
  };
  auto part = co_await call.blocking_long(std::move(work));
  if (!part) co_return co_await call.refuse(part.error(), About::kUpload);
  XmlWriter xml("CopyPartResult");
  xml.add("LastModified", format_iso_date((*part)->record().modified_ms));
  xml.add("ETag", quoted_etag((*part)->record().etag));
  co_return co_await call.send_xml(200, xml.finish());
}

net::Task<Status> list_parts(Call& call) {
  call.operation = "list_parts";
  auto limit = get_limit(call, "max-parts");
  if (!limit) co_return co_await call.refuse(limit.error(), About::kUpload);
  unsigned after = 0;
  const std::string marker = call.get_query("part-number-marker");
  std::from_chars(marker.data(), marker.data() + marker.size(), after);
  store::Store& store = call.store();
  auto work = [&store, bucket = call.bucket, key = call.key, upload = call.get_query("uploadId")] {
    return store.parts(bucket, key, upload);
  };
  auto parts = co_await call.blocking(std::move(work));
  if (!parts) co_return co_await call.refuse(parts.error(), About::kUpload);
  XmlWriter xml("ListPartsResult");
  xml.add("Bucket", call.bucket);
  xml.add("Key", call.key);
  xml.add("UploadId", call.get_query("uploadId"));
  xml.add("PartNumberMarker", uint64_t{after});
  xml.add("MaxParts", uint64_t{*limit});
  xml.add("StorageClass", "STANDARD");
  size_t listed = 0;
  unsigned last = after;
  bool truncated = false;
  for (const store::PartStatus& part : *parts) {
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
  xml.add("NextPartNumberMarker", uint64_t{last});
  xml.add("IsTruncated", truncated ? "true" : "false");
  co_return co_await call.send_xml(200, xml.finish());
}

net::Task<Status> list_uploads(Call& call) {
  call.operation = "list_uploads";
  auto limit = get_limit(call, "max-uploads");
  if (!limit) co_return co_await call.refuse(limit.error(), About::kBucket);
  const std::string prefix = call.get_query("prefix");
  const std::string key_marker = call.get_query("key-marker");
  const std::string upload_marker = call.get_query("upload-id-marker");
  store::Store& store = call.store();
  auto work = [&store, bucket = call.bucket] { return store.uploads(bucket); };
  auto uploads = co_await call.blocking(std::move(work));
  if (!uploads) co_return co_await call.refuse(uploads.error(), About::kBucket);
  XmlWriter xml("ListMultipartUploadsResult");
  xml.add("Bucket", call.bucket);
  xml.add("Prefix", prefix);
  xml.add("KeyMarker", key_marker);
  xml.add("UploadIdMarker", upload_marker);
  xml.add("MaxUploads", uint64_t{*limit});
  size_t listed = 0;
  bool truncated = false;
  bool passed_marker = false;
  const store::UploadStatus* last = nullptr;
  for (const store::UploadStatus& upload : *uploads) {
    if (!upload.key.starts_with(prefix) || upload.key < key_marker) continue;
    if (upload.key == key_marker && !passed_marker) {
      if (upload.upload == upload_marker) passed_marker = true;
      continue;
    }
    if (listed == *limit) {
      truncated = true;
      break;
    }
    xml.open("Upload");
    xml.add("Key", upload.key);
    xml.add("UploadId", upload.upload);
    xml.add("Initiated", format_iso_date(upload.initiated_ms));
    xml.add("StorageClass", "STANDARD");
    xml.close();
    last = &upload;
    ++listed;
  }
  xml.add("IsTruncated", truncated ? "true" : "false");
  if (truncated && last != nullptr) {
    xml.add("NextKeyMarker", last->key);
    xml.add("NextUploadIdMarker", last->upload);
  }
  co_return co_await call.send_xml(200, xml.finish());
}

namespace {

struct Completion {
  std::shared_ptr<const store::Object> object;
  std::vector<NameValue> checksums;
};

Result<Completion> complete(store::Store& store, const std::string& bucket, const std::string& key,
                            const std::string& upload, const std::vector<CompletedPart>& wanted,
                            const std::vector<NameValue>& claimed, store::Condition condition) {
  const store::UploadStatus status = MR_TRY(store.upload(bucket, key, upload));
  const std::vector<store::PartStatus> stored = MR_TRY(store.parts(bucket, key, upload));
  // Another completion may take the parts in the meantime: then it is the upload that is gone, not a part of
  // it.
  const auto refused = [&](Error error) {
    auto there = store.upload(bucket, key, upload);
    return there ? std::move(error) : there.take_error();
  };
  if (auto checked = check_parts(wanted, stored); !checked) return refused(checked.take_error());
  Completion completion;
  completion.checksums = MR_TRY(object_checksum(status.headers, wanted, stored));
  for (const auto& [name, value] : claimed) {
    const std::string* actual = find_header(completion.checksums, name);
    if (actual != nullptr && *actual != value) {
      return make_error(Code::kInvalid, "BadDigest: the object has {} {}, not {}", name, *actual,
                        printable(value, 80));
    }
  }
  std::vector<store::CompletePart> parts;
  for (const CompletedPart& part : wanted) parts.push_back({part.number, part.etag});
  auto object = store.complete_upload(bucket, key, upload, std::move(parts),
                                      {multipart_etag(wanted), completion.checksums}, std::move(condition));
  if (!object) return refused(object.take_error());
  completion.object = object.take();
  return completion;
}

}  // namespace

net::Task<Status> complete_upload(Call& call) {
  call.operation = "complete_upload";
  auto text = co_await read_document(call, kMaxCompleteBody);
  if (!text) co_return co_await call.refuse(text.error(), About::kUpload);
  auto wanted = parse_complete(*text);
  if (!wanted) co_return co_await call.refuse(wanted.error(), About::kUpload);
  auto condition = put_condition(call);
  if (!condition) co_return co_await call.refuse(condition.error(), About::kUpload);
  std::vector<NameValue> claimed;
  for (const net::HeaderView& header : call.request().headers) {
    std::string name = lower_case(header.name);
    if (net::find_checksum_kind(name)) claimed.emplace_back(std::move(name), header.value);
  }
  store::Store& store = call.store();
  auto work = [&store, bucket = call.bucket, key = call.key, upload = call.get_query("uploadId"),
               wanted = wanted.take(), claimed, condition = condition.take()] {
    return complete(store, bucket, key, upload, wanted, claimed, condition);
  };
  auto completed = co_await call.blocking(std::move(work));
  if (!completed) co_return co_await call.refuse(completed.error(), About::kUpload);
  XmlWriter xml("CompleteMultipartUploadResult");
  xml.add("Location", fmt::format("{}://{}/{}/{}", call.connection.is_encrypted() ? "https" : "http",
                                  call.request().get("host"), call.bucket,
                                  net::percent_encode(call.key, net::Encode::kPath)));
  xml.add("Bucket", call.bucket);
  xml.add("Key", call.key);
  xml.add("ETag", quoted_etag(completed->object->record().etag));
  add_checksums(xml, completed->checksums);
  co_return co_await call.send_xml(200, xml.finish());
}

net::Task<Status> abort_upload(Call& call) {
  call.operation = "abort_upload";
  store::Store& store = call.store();
  auto work = [&store, bucket = call.bucket, key = call.key, upload = call.get_query("uploadId")] {
    return store.abort_upload(bucket, key, upload);
  };
  auto aborted = co_await call.blocking(std::move(work));
  if (!aborted) co_return co_await call.refuse(aborted.error(), About::kUpload);
  co_return co_await call.send_empty(204);
}

}  // namespace millrace::cluster
