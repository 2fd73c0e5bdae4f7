// Parts are objects without a name until the upload is completed.
#include "gateway/multipart.h"

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "gateway/conditions.h"
#include "gateway/copy_object.h"
#include "gateway/get_object.h"
#include "gateway/object_checksum.h"
#include "gateway/put_object.h"
#include "gateway/s3_xml.h"
#include "gateway/upload_body.h"

namespace millrace::gateway {

namespace {

using store::NameValue;

constexpr size_t kMaxCompleteBody = 4 << 20;

Result<unsigned> part_number(const Call& call) {
  const std::string text = call.get_query("partNumber");
  const auto number = parse_number<unsigned>(text);
  if (!number || *number < 1 || *number > store::kMaxParts)
    return make_error(Code::kInvalid, "partNumber must be 1 to {}", store::kMaxParts);
  return *number;
}

store::PartOptions part_options(const Call& call, unsigned number) {
  store::PartOptions options;
  options.bucket = call.bucket;
  options.key = call.key;
  options.upload = call.get_query("uploadId");
  options.number = number;
  return options;
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

// The parts that the client names, in its order. What it says about each must be what was stored with it.
Result<std::vector<store::PartStatus>> choose_parts(const std::vector<CompletedPart>& wanted,
                                                    const std::vector<store::PartStatus>& stored) {
  std::vector<store::PartStatus> chosen;
  for (const CompletedPart& part : wanted) {
    const auto found = std::ranges::find(stored, part.number, &store::PartStatus::number);
    if (found == stored.end()) return make_error(store::kNoSuchPart, "part {} was not uploaded", part.number);
    for (const NameValue& checksum : part.checksums) {
      const std::string* kept = find_header(found->headers, checksum.first);
      if (kept == nullptr) {
        return make_error(store::kNoSuchPart, "part {} came without {}: it cannot be compared", part.number,
                          checksum.first);
      }
      if (*kept != checksum.second)
        return make_error(store::kNoSuchPart, "part {} has another {}", part.number, checksum.first);
    }
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace

net::Task<Status> create_upload(Call& call) {
  store::PutOptions options;
  options.bucket = call.bucket;
  options.key = call.key;
  auto headers = kept_headers(call);
  if (!headers) co_return co_await call.refuse(headers.error());
  options.headers = headers.take();
  for (const std::string_view name : {kChecksumAlgorithm, kChecksumType}) {
    if (const auto value = call.request().find(name)) options.headers.emplace_back(name, *value);
  }
  auto form = find_form(options.headers);
  if (!form) co_return co_await call.refuse(form.error());
  auto condition = put_condition(call);
  if (!condition) co_return co_await call.refuse(condition.error());
  auto judged = co_await judge_now(call, condition.take());
  if (!judged) co_return co_await call.refuse(judged.error());
  if (const auto tagging = call.request().find("x-amz-tagging")) {
    auto tags = parse_tagging_header(*tagging);
    if (!tags) co_return co_await call.refuse(tags.error());
    options.tags = tags.take();
  }
  store::Store& store = call.store();
  auto work = [&store, options] { return store.create_upload(options); };
  auto upload = co_await call.blocking(std::move(work));
  if (!upload) co_return co_await call.refuse(upload.error());
  XmlWriter xml("InitiateMultipartUploadResult");
  xml.add("Bucket", call.bucket);
  xml.add("Key", call.key);
  xml.add("UploadId", *upload);
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/xml");
  if (*form) {
    head.add(kChecksumAlgorithm, net::checksum_algorithm((*form)->kind));
    head.add(kChecksumType, (*form)->whole ? "FULL_OBJECT" : "COMPOSITE");
  }
  const std::string body = xml.finish();
  co_return co_await call.connection.send(body);
}

net::Task<Status> put_part(Call& call) {
  auto number = part_number(call);
  if (!number) co_return co_await call.refuse(number.error());
  const auto bucket = call.store().find_bucket(call.bucket);
  auto body = UploadBody::open(call, bucket ? bucket->settings.etag : store::EtagMode::kAuto);
  if (!body) co_return co_await call.refuse(body.error());
  store::PartOptions options = part_options(call, *number);
  options.size = body->size();
  auto writer = call.store().put_part(std::move(options));
  if (!writer) co_return co_await call.refuse(writer.error());
  auto part = co_await receive_object(call, *body, **writer);
  if (!part) co_return co_await call.refuse(part.error());
  net::HeadBuilder& head = call.connection.start(200);
  head.add("ETag", quoted_etag((*part)->record().etag));
  for (const auto& [name, value] : body->checksums()) head.add(name, value);
  co_return co_await call.connection.send({});
}

net::Task<Status> copy_part(Call& call) {
  auto number = part_number(call);
  if (!number) co_return co_await call.refuse(number.error());
  auto source = co_await open_copy_source(call);
  if (!source) co_return co_await call.refuse(source.error());
  ByteRange range{0, (*source)->record().size};
  if (const auto text = call.request().find("x-amz-copy-source-range")) {
    const ParsedRange parsed = parse_range(*text, range.size);
    // Unlike a GET, a copy is not cut to what is there: the part would silently be shorter than the client
    // counts on.
    const std::string full =
        fmt::format("bytes={}-{}", parsed.range.offset, parsed.range.offset + parsed.range.size - 1);
    if (parsed.kind != RangeKind::kPart || *text != full) {
      Refusal refusal{&kInvalidRange, "x-amz-copy-source-range is not a range of the source", ""};
      co_return co_await call.refuse(std::move(refusal));
    }
    range = parsed.range;
  }
  store::PartOptions options = part_options(call, *number);
  options.size = range.size;
  auto writer = call.store().put_part(std::move(options));
  if (!writer) co_return co_await call.refuse(writer.error());
  store::Store& store = call.store();
  std::shared_ptr<store::Writer> target = writer.take();
  CopyPlan plan{range, range.size <= kMd5Bytes, {}};
  auto work = [&store, object = *source, target, plan, bucket = call.bucket, key = call.key,
               upload =
                   call.get_query("uploadId")]() mutable -> Result<std::shared_ptr<const store::Object>> {
    const store::UploadStatus status = MR_TRY(store.upload(bucket, key, upload));
    const auto form = MR_TRY(find_form(status.headers));
    if (form) plan.checksums.push_back(form->kind);
    return copy_into(store, *object, *target, plan);
  };
  auto part = co_await call.blocking_long(std::move(work));
  if (!part) co_return co_await call.refuse(part.error());
  XmlWriter xml("CopyPartResult");
  xml.add("LastModified", format_iso_date((*part)->record().modified_ms));
  xml.add("ETag", quoted_etag((*part)->record().etag));
  add_checksums(xml, (*part)->record().headers);
  co_return co_await call.send_xml(200, xml.finish());
}

namespace {

// What a client says when it completes an upload.
struct Completion {
  std::string bucket;
  std::string key;
  std::string upload;
  std::vector<CompletedPart> parts;
  std::vector<NameValue> claims;  // checksums of the object
  std::string type;               // of them; empty: not said
  std::optional<uint64_t> size;
  store::Condition condition;
};

Result<std::vector<NameValue>> judge_completion(const Completion& completion,
                                                const store::UploadStatus& status,
                                                const std::vector<store::PartStatus>& parts) {
  const auto form = MR_TRY(find_form(status.headers));
  if (form && !completion.type.empty() && (completion.type == "FULL_OBJECT") != form->whole) {
    return make_error(kInvalidRequest, "the upload was begun with another checksum type than {}",
                      completion.type);
  }
  for (const NameValue& claim : completion.claims) MR_TRY(check_claim(claim, parts));
  uint64_t size = 0;
  for (const store::PartStatus& part : parts) size += part.size;
  if (completion.size && *completion.size != size) {
    return make_error(kInvalidRequest, "the parts have {} bytes, x-amz-mp-object-size says {}", size,
                      *completion.size);
  }
  std::vector<NameValue> headers = {{std::string(kUploadHeader), completion.upload}};
  if (!form) return headers;
  if (auto joined = join_checksums(*form, parts))
    headers.emplace_back(net::checksum_header(form->kind), std::move(*joined));
  return headers;
}

Result<std::shared_ptr<const store::Object>> try_to_complete(store::Store& store,
                                                             const Completion& completion) {
  const auto& [bucket, key, upload, wanted, claims, type, size, condition] = completion;
  const store::UploadStatus status = MR_TRY(store.upload(bucket, key, upload));
  const std::vector<store::PartStatus> stored = MR_TRY(store.parts(bucket, key, upload));
  // Another completion may take the parts in the meantime: then it is the upload that is gone, not a part of
  // it.
  const auto refused = [&](Error error) {
    auto there = store.upload(bucket, key, upload);
    return there ? std::move(error) : there.take_error();
  };
  auto chosen = choose_parts(wanted, stored);
  if (!chosen) return refused(chosen.take_error());
  std::vector<NameValue> headers = MR_TRY(judge_completion(completion, status, *chosen));
  std::vector<store::CompletePart> parts;
  for (const CompletedPart& part : wanted) parts.push_back({part.number, part.etag});
  auto object = store.complete_upload(
      {bucket, key, upload, std::move(parts), {multipart_etag(wanted), std::move(headers)}, condition});
  if (!object) return refused(object.take_error());
  return object;
}

// A client that missed the answer asks again. While the object is there, so is the answer.
Result<std::shared_ptr<const store::Object>> complete(store::Store& store, const Completion& completion) {
  auto completed = try_to_complete(store, completion);
  if (completed || completed.error().code() != Code::kNotFound) return completed;
  auto object = store.get_object(completion.bucket, completion.key);
  if (!object) return completed;
  const store::Record& record = (*object)->record();
  const std::string* upload = find_header(record.headers, kUploadHeader);
  const bool same = upload != nullptr && *upload == completion.upload;
  return same && record.etag == multipart_etag(completion.parts) ? std::move(object) : std::move(completed);
}

Result<Completion> read_completion(const Call& call, std::string_view text) {
  Completion completion;
  completion.bucket = call.bucket;
  completion.key = call.key;
  completion.upload = call.get_query("uploadId");
  completion.parts = MR_TRY(parse_complete(text));
  completion.claims = claimed_checksums(call);
  completion.type = call.request().get(kChecksumType);
  completion.condition = MR_TRY(put_condition(call));
  if (const auto size = call.request().find("x-amz-mp-object-size")) {
    const auto bytes = parse_number<uint64_t>(*size);
    if (!bytes) return make_error(Code::kInvalid, "x-amz-mp-object-size is not a number");
    completion.size = *bytes;
  }
  return completion;
}

std::string location_of(const Call& call) {
  const std::string key = net::percent_encode(call.key, net::Encode::kPath);
  return fmt::format("{}://{}/{}{}", call.connection.is_encrypted() ? "https" : "http", call.request().host,
                     call.in_host ? "" : call.bucket + "/", key);
}

}  // namespace

net::Task<Status> complete_upload(Call& call) {
  auto text = co_await read_document(call, kMaxCompleteBody, Checksums::kOfObject);
  if (!text) co_return co_await call.refuse(text.error());
  auto completion = read_completion(call, *text);
  if (!completion) co_return co_await call.refuse(completion.error());
  store::Store& store = call.store();
  auto work = [&store, completion = completion.take()] { return complete(store, completion); };
  auto completed = co_await call.blocking(std::move(work));
  if (!completed) co_return co_await call.refuse(completed.error());
  XmlWriter xml("CompleteMultipartUploadResult");
  xml.add("Location", location_of(call));
  xml.add("Bucket", call.bucket);
  xml.add("Key", call.key);
  xml.add("ETag", quoted_etag((*completed)->record().etag));
  add_checksums(xml, object_checksums((*completed)->record()));
  co_return co_await call.send_xml(200, xml.finish());
}

net::Task<Status> abort_upload(Call& call) {
  store::Store& store = call.store();
  auto work = [&store, bucket = call.bucket, key = call.key, upload = call.get_query("uploadId")] {
    return store.abort_upload(bucket, key, upload);
  };
  auto aborted = co_await call.blocking(std::move(work));
  if (!aborted) co_return co_await call.refuse(aborted.error());
  co_return co_await call.send_empty(204);
}

}  // namespace millrace::gateway
