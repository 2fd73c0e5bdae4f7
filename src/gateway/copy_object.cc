// A copy: bytes of one object into another, read and compared on the way.
#include "gateway/copy_object.h"

#include <algorithm>

#include "base/clock.h"
#include "base/text.h"
#include "gateway/conditions.h"
#include "gateway/get_object.h"
#include "gateway/object_checksum.h"
#include "gateway/put_object.h"
#include "gateway/s3_errors.h"
#include "gateway/s3_xml.h"
#include "gateway/upload_body.h"
#include "store/waiting.h"

namespace millrace::gateway {

namespace {

using store::NameValue;

std::string copy_result_xml(std::string_view root, const store::Record& record) {
  XmlWriter xml(root);
  xml.add("LastModified", format_iso_date(record.modified_ms));
  xml.add("ETag", quoted_etag(record.etag));
  add_checksums(xml, object_checksums(record));
  return xml.finish();
}

}  // namespace

Result<CopySource> parse_copy_source(std::string_view text) {
  if (const size_t mark = text.find('?'); mark != std::string_view::npos) {
    const std::vector<net::QueryItem> items = MR_TRY(net::parse_query(text.substr(mark + 1)));
    for (const auto& [name, value] : items) {
      if (name == "versionId" && value == "null") continue;
      if (name == "versionId") return make_error(kNotImplemented, "versions of objects are not kept");
      return make_error(Code::kInvalid, "x-amz-copy-source has an unknown ?{}", printable(name, 64))
          .with_hint("a ? in a key is written %3F");
    }
    text = text.substr(0, mark);
  }
  // As in a query, and unlike in a path, "+" is a blank.
  std::string path = MR_TRY(net::decode_form(text));
  if (path.starts_with('/')) path.erase(0, 1);
  const size_t slash = path.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == path.size()) {
    return make_error(Code::kInvalid, "x-amz-copy-source is not bucket/key");
  }
  MR_TRY(store::check_key(std::string_view(path).substr(slash + 1)));
  return CopySource{path.substr(0, slash), path.substr(slash + 1)};
}

net::Task<Result<store::ObjectPointer>> open_copy_source(Call& call) {
  auto source = parse_copy_source(call.request().get("x-amz-copy-source"));
  if (!source) co_return source.take_error();
  const auto bucket = call.objects().find_bucket(source->bucket);
  const bool public_read = bucket && bucket->settings.anonymous_read;
  if (!public_read && !call.caller.may(Right::kRead, source->bucket)) {
    co_return make_error(Code::kDenied, "bucket {} may not be read with this key", source->bucket);
  }
  if (!bucket) co_return store::no_such_bucket(source->bucket);
  auto object = co_await find_object(call, source->bucket, source->key);
  if (!object) co_return object.take_error();
  auto verdict = judge_conditions(call.request(), (*object)->record(), ConditionHeaders::kCopySource);
  if (!verdict) co_return verdict.take_error();
  if (*verdict != Verdict::kGo) {
    co_return make_error(store::kConditionFailed, "the source is not what x-amz-copy-source-if-… says");
  }
  co_return object.take();
}

namespace {

Status copy_bytes(store::WaitingReader& source, ByteRange range, store::Writer& writer,
                  std::vector<net::Digest>& digests) {
  auto [offset, size] = range;
  while (size > 0) {
    const std::string bytes = MR_TRY(source.read(offset, std::min<uint64_t>(size, store::kBlockBytes)));
    for (net::Digest& digest : digests) digest.add(bytes);
    MR_TRY(store::fill(writer, bytes));
    offset += bytes.size();
    size -= bytes.size();
  }
  return {};
}

}  // namespace

Result<store::ObjectPointer> copy_into(store::Objects& objects, store::ObjectPointer source,
                                       store::Writer& writer, const CopyPlan& plan) {
  std::vector<net::Digest> digests;
  if (plan.md5) digests.emplace_back(net::DigestKind::kMd5);
  for (const net::DigestKind kind : plan.checksums) digests.emplace_back(kind);
  // What is stored again is compared first: its new checksums would hide the damage.
  store::WaitingReader reader(objects, std::move(source), store::Comparing::kAlways);
  MR_TRY(copy_bytes(reader, plan.range, writer, digests));
  store::Finish finish;
  size_t at = 0;
  if (plan.md5) finish.etag = net::to_hex(digests[at++].finish());
  for (const net::DigestKind kind : plan.checksums)
    finish.headers.emplace_back(net::checksum_header(kind), net::to_base64(digests[at++].finish()));
  return store::wait_for<store::ObjectPointer>(
      [&](store::Done<store::ObjectPointer> done) { writer.finish(std::move(finish), std::move(done)); });
}

namespace {

// The checksums that a copy gets anew: the one that is asked for, and those of the source that are made of
// its parts' and say nothing about the bytes in a row.
std::vector<net::DigestKind> new_checksums(const Call& call, const store::Record& source) {
  std::vector<net::DigestKind> kinds;
  const auto asked = net::find_checksum_algorithm(call.request().get("x-amz-checksum-algorithm"));
  if (asked) return {*asked};
  for (const auto& [name, value] : source.headers) {
    const auto kind = net::find_checksum_kind(name);
    if (kind && value.find('-') != std::string::npos) kinds.push_back(*kind);
  }
  return kinds;
}

Result<bool> replaces(const Call& call, std::string_view directive) {
  const std::string_view value = call.request().get(directive);
  if (value.empty() || net::equal_names(value, "copy")) return false;
  if (net::equal_names(value, "replace")) return true;
  return make_error(Code::kInvalid, "{} is COPY or REPLACE", directive);
}

Result<store::PutOptions> copy_options(const Call& call, const store::Object& source, const CopyPlan& plan) {
  const store::Record& record = source.record();
  store::PutOptions options;
  options.bucket = call.bucket;
  options.key = call.key;
  options.size = record.size;
  const bool replace = MR_TRY(replaces(call, "x-amz-metadata-directive"));
  if (source.bucket() == call.bucket && source.key() == call.key && !replace) {
    return make_error(kInvalidRequest,
                      "copying an object onto itself needs x-amz-metadata-directive: REPLACE");
  }
  if (replace) options.headers = MR_TRY(kept_headers(call));
  for (const NameValue& header : record.headers) {
    const bool is_checksum = net::find_checksum_kind(header.first).has_value();
    const bool is_stores = header.first == store::kIndexProblem || header.first == kUploadHeader ||
                           header.first == store::kUpstreamVersion ||
                           (header.first.starts_with("x-amz-checksum-") && !is_checksum);
    if (is_stores || (is_checksum ? !plan.checksums.empty() : replace)) continue;
    options.headers.push_back(header);
  }
  options.tags = record.tags;
  if (MR_TRY(replaces(call, "x-amz-tagging-directive")))
    options.tags = MR_TRY(parse_tagging_header(call.request().get("x-amz-tagging")));
  options.condition = MR_TRY(put_condition(call));
  return options;
}

}  // namespace

net::Task<Status> copy_object(Call& call) {
  auto source = co_await open_copy_source(call);
  if (!source) co_return co_await call.refuse(source.error());
  const store::Record& record = (*source)->record();
  const auto bucket = call.objects().find_bucket(call.bucket);
  const store::EtagMode mode = bucket ? bucket->settings.etag : store::EtagMode::kAuto;
  CopyPlan plan;
  plan.range = {0, record.size};
  plan.md5 = mode == store::EtagMode::kMd5 || (mode == store::EtagMode::kAuto && record.size <= kMd5Bytes);
  plan.checksums = new_checksums(call, record);
  auto options = copy_options(call, **source, plan);
  if (!options) co_return co_await call.refuse(options.error());
  auto writer = call.objects().put(options.take());
  if (!writer) co_return co_await call.refuse(writer.error());
  store::Objects& objects = call.objects();
  std::shared_ptr<store::Writer> target = writer.take();
  auto work = [&objects, object = *source, target, plan] {
    return copy_into(objects, object, *target, plan);
  };
  auto copied = co_await call.blocking_long(std::move(work));
  if (!copied) co_return co_await call.refuse(copied.error());
  co_return co_await call.send_xml(200, copy_result_xml("CopyObjectResult", (*copied)->record()));
}

}  // namespace millrace::gateway
