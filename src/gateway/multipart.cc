// Multipart uploads as S3 has them: created, filled, completed, aborted.
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
#include "store/waiting.h"

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
  options.name = upload_name(call);
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
    const auto same = std::ranges::equal_range(stored, part.number, {}, &store::PartStatus::number);
    if (same.empty()) return make_error(store::kNoSuchPart, "part {} was not uploaded", part.number);
    // A part may be there more than once; the store judges an etag that none of them has.
    auto found = std::ranges::find(same, part.etag, &store::PartStatus::etag);
    if (found == same.end()) found = same.begin();
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

store::UploadName upload_name(const Call& call) {
  return {call.bucket, call.key, call.get_query("uploadId")};
}

net::Task<Result<store::UploadStatus>> get_upload(Call& call) {
  std::function<void(store::Done<store::UploadStatus>)> start =
      [&call](store::Done<store::UploadStatus> done) {
        call.objects().upload(upload_name(call), std::move(done));
      };
  co_return co_await call.ask<store::UploadStatus>(std::move(start));
}

net::Task<Status> create_upload(Call& call) {
  auto options = put_options(call);
  if (!options) co_return co_await call.refuse(options.error());
  for (const std::string_view name : {kChecksumAlgorithm, kChecksumType}) {
    if (const auto value = call.request().find(name)) options->headers.emplace_back(name, *value);
  }
  auto form = find_form(options->headers);
  if (!form) co_return co_await call.refuse(form.error());
  // The condition is that of the completion; what fails now would fail then.
  store::Condition condition = std::exchange(options->condition, store::Condition());
  auto judged = co_await judge_now(call, std::move(condition));
  if (!judged) co_return co_await call.refuse(judged.error());
  std::function<void(store::Done<std::string>)> create =
      [&call, options = options.take()](store::Done<std::string> done) {
        call.objects().create_upload(options, std::move(done));
      };
  auto upload = co_await call.ask<std::string>(std::move(create));
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
  const auto bucket = call.objects().find_bucket(call.bucket);
  auto body = UploadBody::open(call, bucket ? bucket->settings.etag : store::EtagMode::kAuto);
  if (!body) co_return co_await call.refuse(body.error());
  store::PartOptions options = part_options(call, *number);
  options.size = body->size();
  auto writer = call.objects().put_part(std::move(options));
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
  auto writer = call.objects().put_part(std::move(options));
  if (!writer) co_return co_await call.refuse(writer.error());
  auto status = co_await get_upload(call);
  if (!status) co_return co_await call.refuse(status.error());
  auto form = find_form(status->headers);
  if (!form) co_return co_await call.refuse(form.error());
  CopyPlan plan{range, range.size <= kMd5Bytes, {}};
  if (*form) plan.checksums.push_back((*form)->kind);
  std::shared_ptr<store::Writer> target = writer.take();
  store::Objects& objects = call.objects();
  auto work = [&objects, object = *source, target, plan] {
    return copy_into(objects, object, *target, plan);
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
struct AskedCompletion {
  store::UploadName name;
  std::vector<CompletedPart> parts;
  std::vector<NameValue> claims;  // checksums of the object
  std::string type;               // of them; empty: not said
  std::optional<uint64_t> size;
  store::Condition condition;
};

Result<std::vector<NameValue>> judge_completion(const AskedCompletion& completion,
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
  std::vector<NameValue> headers = {{std::string(kUploadHeader), completion.name.upload}};
  if (!form) return headers;
  if (auto joined = join_checksums(*form, parts))
    headers.emplace_back(net::checksum_header(form->kind), std::move(*joined));
  return headers;
}

Result<store::UploadStatus> wait_for_upload(store::Objects& objects, const store::UploadName& name) {
  return store::wait_for<store::UploadStatus>(
      [&](store::Done<store::UploadStatus> done) { objects.upload(name, std::move(done)); });
}

Result<store::ObjectPointer> try_to_complete(store::Objects& objects, const AskedCompletion& asked) {
  const store::UploadStatus status = MR_TRY(wait_for_upload(objects, asked.name));
  using Parts = std::vector<store::PartStatus>;
  const Parts stored = MR_TRY(
      store::wait_for<Parts>([&](store::Done<Parts> done) { objects.parts(asked.name, std::move(done)); }));
  // Another completion may take the parts in the meantime: then it is the upload that is gone, not a part of
  // it.
  const auto refused = [&](Error error) {
    auto there = wait_for_upload(objects, asked.name);
    return there ? std::move(error) : there.take_error();
  };
  auto chosen = choose_parts(asked.parts, stored);
  if (!chosen) return refused(chosen.take_error());
  store::Completion completion{asked.name, {}, {multipart_etag(asked.parts), {}}, asked.condition};
  completion.finish.headers = MR_TRY(judge_completion(asked, status, *chosen));
  for (const CompletedPart& part : asked.parts) completion.parts.push_back({part.number, part.etag});
  auto object = store::wait_for<store::ObjectPointer>([&](store::Done<store::ObjectPointer> done) {
    objects.complete_upload(std::move(completion), std::move(done));
  });
  if (!object) return refused(object.take_error());
  return object;
}

// A client that missed the answer asks again. While the object is there, so is the answer.
Result<store::ObjectPointer> complete(store::Objects& objects, const AskedCompletion& completion) {
  auto completed = try_to_complete(objects, completion);
  if (completed || completed.error().code() != Code::kNotFound) return completed;
  auto object = store::wait_for<store::ObjectPointer>([&](store::Done<store::ObjectPointer> done) {
    objects.get(completion.name.bucket, completion.name.key, std::move(done));
  });
  if (!object) return completed;
  const store::Record& record = (*object)->record();
  const std::string* upload = find_header(record.headers, kUploadHeader);
  const bool same = upload != nullptr && *upload == completion.name.upload;
  return same && record.etag == multipart_etag(completion.parts) ? std::move(object) : std::move(completed);
}

Result<AskedCompletion> read_completion(const Call& call, std::string_view text) {
  AskedCompletion completion;
  completion.name = upload_name(call);
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
  store::Objects& objects = call.objects();
  auto work = [&objects, completion = completion.take()] { return complete(objects, completion); };
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
  std::function<void(store::Done<void>)> abort = [&call](store::Done<void> done) {
    call.objects().abort_upload(upload_name(call), std::move(done));
  };
  auto aborted = co_await call.ask<void>(std::move(abort));
  if (!aborted) co_return co_await call.refuse(aborted.error());
  co_return co_await call.send_empty(204);
}

}  // namespace millrace::gateway
