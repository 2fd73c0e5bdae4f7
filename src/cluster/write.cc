// One body in, one switch in the index.
#include "cluster/write.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <future>

#include "base/clock.h"
#include "base/text.h"
#include "cluster/body.h"
#include "cluster/object_checksum.h"
#include "cluster/read.h"
#include "cluster/xml.h"

namespace millrace::cluster {

namespace {

using store::NameValue;

constexpr std::string_view kKeptHeaders[] = {"content-type",     "content-encoding", "content-disposition",
                                             "content-language", "cache-control",    "expires"};
constexpr size_t kMaxMetadata = 2048;
constexpr size_t kMaxXmlBody = 2 << 20;

// aws-chunked is how the body travelled, not how the object is encoded. The other words stay as they were
// sent.
std::string without_aws_chunked(std::string_view value) {
  std::string kept;
  while (true) {
    const size_t comma = value.find(',');
    const std::string_view word = value.substr(0, comma);
    if (!net::equal_names(trim(word), "aws-chunked")) {
      if (!kept.empty()) kept += ',';
      kept += kept.empty() ? trim(word) : word;
    }
    if (comma == std::string_view::npos) return std::string(trim(kept));
    value.remove_prefix(comma + 1);
  }
}

net::Task<Status> answer_put(Call& call, const store::Object& object) {
  net::HeadBuilder& head = call.connection.start(200);
  head.add("ETag", quoted_etag(object.record().etag));
  for (const auto& [name, value] : object_checksums(object.record())) head.add(name, value);
  co_return co_await call.connection.send({});
}

// x-amz-copy-source-if-match and its three brothers.
Status judge_copy_conditions(const net::RequestHead& request, const store::Record& record) {
  const int64_t modified_seconds = record.modified_ms / 1000;
  const auto seconds_of = [](std::string_view text) -> Result<int64_t> {
    auto date = parse_http_date(text);
    if (!date) return make_error(Code::kInvalid, "x-amz-copy-source-if-…: {}", date.error().message());
    return *date / 1000;
  };
  const auto failed = [] {
    return make_error(Code::kExists,
                      "PreconditionFailed: the source is not what x-amz-copy-source-if-… says");
  };
  if (const auto match = request.find("x-amz-copy-source-if-match")) {
    if (!etag_listed(*match, record.etag)) return failed();
  } else if (const auto since = request.find("x-amz-copy-source-if-unmodified-since")) {
    if (modified_seconds > MR_TRY(seconds_of(*since))) return failed();
  }
  if (const auto none = request.find("x-amz-copy-source-if-none-match")) {
    if (etag_listed(*none, record.etag)) return failed();
  } else if (const auto since = request.find("x-amz-copy-source-if-modified-since")) {
    if (modified_seconds <= MR_TRY(seconds_of(*since))) return failed();
  }
  return {};
}

std::string copy_result_xml(std::string_view root, const store::Record& record) {
  XmlWriter xml(root);
  xml.add("LastModified", format_iso_date(record.modified_ms));
  xml.add("ETag", quoted_etag(record.etag));
  add_checksums(xml, object_checksums(record));
  return xml.finish();
}

}  // namespace

Result<std::vector<NameValue>> kept_headers(const Call& call) {
  std::vector<NameValue> kept;
  size_t metadata = 0;
  for (const net::HeaderView& header : call.request().headers) {
    const std::string name = lower_case(header.name);
    std::string value(header.value);
    const bool is_metadata = name.starts_with("x-amz-meta-");
    if (is_metadata) {
      metadata += name.size() - 11 + value.size();
    } else if (std::find(std::begin(kKeptHeaders), std::end(kKeptHeaders), name) == std::end(kKeptHeaders)) {
      continue;
    }
    if (name == "content-encoding") value = without_aws_chunked(value);
    if (value.size() > kMaxMetadata)
      return make_error(Code::kInvalid, "MetadataTooLarge: {} is too long", name);
    if (!value.empty() || is_metadata) kept.emplace_back(name, std::move(value));
  }
  if (metadata > kMaxMetadata) {
    return make_error(Code::kInvalid, "MetadataTooLarge: user metadata has {} bytes, at most {}", metadata,
                      kMaxMetadata);
  }
  return kept;
}

Result<store::Condition> put_condition(const Call& call) {
  store::Condition condition;
  if (const auto none = call.request().find("if-none-match")) {
    if (*none != "*")
      return make_error(Code::kUnsupported, "NotImplemented: If-None-Match on a PUT must be *");
    condition.only_if_absent = true;
  }
  if (const auto match = call.request().find("if-match"))
    condition.only_if_etag = std::string(unquoted_etag(*match));
  return condition;
}

namespace {

Result<store::Condition> delete_condition(const Call& call) {
  store::Condition condition;
  if (const auto match = call.request().find("if-match"))
    condition.only_if_etag = std::string(unquoted_etag(*match));
  if (const auto size = call.request().find("x-amz-if-match-size")) {
    uint64_t bytes = 0;
    const auto [end, problem] = std::from_chars(size->data(), size->data() + size->size(), bytes);
    if (size->empty() || problem != std::errc() || end != size->data() + size->size())
      return make_error(Code::kInvalid, "x-amz-if-match-size is not a number");
    condition.only_if_size = bytes;
  }
  if (const auto time = call.request().find("x-amz-if-match-last-modified-time"))
    condition.only_if_modified_ms = MR_TRY(parse_date(*time).within("x-amz-if-match-last-modified-time"));
  return condition;
}

}  // namespace

net::Task<Status> judge_now(Call& call, store::Condition condition) {
  if (!condition.is_any()) co_return Status();
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object && object.error().code() != Code::kNotFound) co_return Status();
  co_return condition.judge(call.bucket, call.key, object ? &(*object)->record() : nullptr);
}

net::Task<Status> put_object(Call& call) {
  call.operation = "put";
  store::PutOptions options;
  options.bucket = call.bucket;
  options.key = call.key;
  auto headers = kept_headers(call);
  if (!headers) co_return co_await call.refuse(headers.error(), About::kObject);
  options.headers = headers.take();
  auto condition = put_condition(call);
  if (!condition) co_return co_await call.refuse(condition.error(), About::kObject);
  options.condition = condition.take();
  if (call.request().expects_continue) {
    // The client waits with its body: it need not send it in vain.
    auto judged = co_await judge_now(call, options.condition);
    if (!judged) co_return co_await call.refuse(judged.error(), About::kObject);
  }
  if (const auto tagging = call.request().find("x-amz-tagging")) {
    auto tags = parse_tagging_header(*tagging);
    if (!tags) co_return co_await call.refuse(tags.error(), About::kObject);
    options.tags = tags.take();
  }
  const auto bucket = call.store().find_bucket(call.bucket);
  auto body = UploadBody::open(call, bucket ? bucket->settings.etag : store::EtagMode::kAuto);
  if (!body) co_return co_await call.refuse(body.error(), About::kObject);
  options.size = body->size();
  auto writer = call.store().put(std::move(options));
  if (!writer) co_return co_await call.refuse(writer.error(), About::kBucket);
  auto object = co_await receive_object(call, *body, **writer);
  if (!object) co_return co_await call.refuse(object.error(), About::kObject);
  co_return co_await answer_put(call, **object);
}

Result<CopySource> parse_copy_source(std::string_view text) {
  if (const size_t mark = text.find('?'); mark != std::string_view::npos) {
    const std::vector<net::QueryItem> items = MR_TRY(net::parse_query(text.substr(mark + 1)));
    for (const auto& [name, value] : items) {
      if (name == "versionId" && value == "null") continue;
      if (name == "versionId")
        return make_error(Code::kUnsupported, "NotImplemented: versions of objects are not kept");
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

net::Task<Result<std::shared_ptr<const store::Object>>> open_copy_source(Call& call) {
  auto source = parse_copy_source(call.request().get("x-amz-copy-source"));
  if (!source) co_return source.take_error();
  const auto bucket = call.store().find_bucket(source->bucket);
  const bool public_read = bucket && bucket->settings.anonymous_read;
  if (!public_read && !call.caller.may(Right::kRead, source->bucket)) {
    co_return make_error(Code::kDenied, "bucket {} may not be read with this key", source->bucket);
  }
  if (!bucket) co_return make_error(Code::kNotFound, "NoSuchBucket: there is no bucket {}", source->bucket);
  auto object = co_await find_object(call, source->bucket, source->key);
  if (!object) co_return object.take_error();
  auto judged = judge_copy_conditions(call.request(), (*object)->record());
  if (!judged) co_return judged.take_error();
  co_return object.take();
}

namespace {

Status copy_bytes(store::Store& store, const store::Object& source, ByteRange range, store::Writer& writer,
                  std::vector<net::Digest>& digests) {
  auto [offset, size] = range;
  while (size > 0) {
    const std::string bytes = MR_TRY(
        store.read(source, offset, std::min<uint64_t>(size, store::kBlockBytes), store::Verified::kAlways));
    for (net::Digest& digest : digests) digest.add(bytes);
    std::string_view rest = bytes;
    while (!rest.empty()) {
      const std::span<std::byte> space = writer.space();
      if (space.empty()) {
        std::promise<void> ready;
        writer.when_space([&ready] { ready.set_value(); });
        ready.get_future().wait();
        MR_TRY(writer.advance(0));
        continue;
      }
      const size_t take = std::min(space.size(), rest.size());
      std::memcpy(space.data(), rest.data(), take);
      MR_TRY(writer.advance(take));
      rest.remove_prefix(take);
    }
    offset += bytes.size();
    size -= bytes.size();
  }
  return {};
}

Result<std::shared_ptr<const store::Object>> finish_blocking(store::Writer& writer, store::Finish finish) {
  std::promise<Result<std::shared_ptr<const store::Object>>> done;
  writer.finish(std::move(finish), [&done](Result<std::shared_ptr<const store::Object>> object) {
    done.set_value(std::move(object));
  });
  return done.get_future().get();
}

}  // namespace

Result<std::shared_ptr<const store::Object>> copy_into(store::Store& store, const store::Object& source,
                                                       store::Writer& writer, const CopyPlan& plan) {
  std::vector<net::Digest> digests;
  if (plan.md5) digests.emplace_back(net::DigestKind::kMd5);
  for (const net::DigestKind kind : plan.checksums) digests.emplace_back(kind);
  MR_TRY(copy_bytes(store, source, plan.range, writer, digests));
  store::Finish finish;
  size_t at = 0;
  if (plan.md5) finish.etag = net::to_hex(digests[at++].finish());
  for (const net::DigestKind kind : plan.checksums)
    finish.headers.emplace_back(net::checksum_header(kind), net::to_base64(digests[at++].finish()));
  return finish_blocking(writer, std::move(finish));
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
    return make_error(
        Code::kInvalid,
        "InvalidRequest: copying an object onto itself needs x-amz-metadata-directive: REPLACE");
  }
  if (replace) options.headers = MR_TRY(kept_headers(call));
  for (const NameValue& header : record.headers) {
    const bool is_checksum = net::find_checksum_kind(header.first).has_value();
    const bool is_stores = header.first == store::kIndexProblem || header.first == kUploadHeader ||
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
  call.operation = "copy";
  auto source = co_await open_copy_source(call);
  if (!source) co_return co_await call.refuse(source.error(), About::kObject);
  const store::Record& record = (*source)->record();
  const auto bucket = call.store().find_bucket(call.bucket);
  const store::EtagMode mode = bucket ? bucket->settings.etag : store::EtagMode::kAuto;
  CopyPlan plan;
  plan.range = {0, record.size};
  plan.md5 = mode == store::EtagMode::kMd5 || (mode == store::EtagMode::kAuto && record.size <= kMd5Bytes);
  plan.checksums = new_checksums(call, record);
  auto options = copy_options(call, **source, plan);
  if (!options) co_return co_await call.refuse(options.error(), About::kObject);
  auto writer = call.store().put(options.take());
  if (!writer) co_return co_await call.refuse(writer.error(), About::kBucket);
  store::Store& store = call.store();
  std::shared_ptr<store::Writer> target = writer.take();
  auto work = [&store, object = *source, target, plan] { return copy_into(store, *object, *target, plan); };
  auto copied = co_await call.blocking_long(std::move(work));
  if (!copied) co_return co_await call.refuse(copied.error(), About::kObject);
  co_return co_await call.send_xml(200, copy_result_xml("CopyObjectResult", (*copied)->record()));
}

net::Task<Status> delete_object(Call& call) {
  call.operation = "delete";
  auto condition = delete_condition(call);
  if (!condition) co_return co_await call.refuse(condition.error(), About::kObject);
  store::Store& store = call.store();
  std::function<void(std::function<void(Status)>)> start =
      [&store, bucket = call.bucket, key = call.key, condition = condition.take()](
          std::function<void(Status)> done) { store.remove(bucket, key, condition, std::move(done)); };
  auto removed = co_await net::await_callback<Status>(call.connection.loop(), std::move(start));
  if (!removed) co_return co_await call.refuse(removed.error(), About::kObject);
  co_return co_await call.send_empty(204);
}

namespace {

// All at once into the store, so that they share a group commit; returns when the last is through.
std::vector<Status> remove_all(store::Store& store, const std::string& bucket, const DeleteRequest& request) {
  std::vector<Status> results(request.entries.size());
  std::atomic<size_t> left = results.size();
  std::promise<void> all;
  for (size_t i = 0; i < request.entries.size(); ++i) {
    const DeleteRequest::Entry& entry = request.entries[i];
    store.remove(bucket, entry.key, entry.condition, [&results, &left, &all, i](Status status) {
      results[i] = std::move(status);
      if (--left == 0) all.set_value();
    });
  }
  all.get_future().wait();
  return results;
}

}  // namespace

net::Task<Status> delete_objects(Call& call) {
  call.operation = "delete_many";
  auto text = co_await read_document(call, kMaxXmlBody);
  if (!text) co_return co_await call.refuse(text.error(), About::kBucket);
  auto request = parse_delete(*text);
  if (!request) co_return co_await call.refuse(request.error(), About::kBucket);
  store::Store& store = call.store();
  auto work = [&store, bucket = call.bucket, &request = *request]() -> Result<std::vector<Status>> {
    return remove_all(store, bucket, request);
  };
  auto removed = co_await call.blocking_long(std::move(work));
  if (!removed) co_return co_await call.refuse(removed.error(), About::kBucket);
  XmlWriter xml("DeleteResult");
  for (size_t i = 0; i < request->entries.size(); ++i) {
    const Status& status = (*removed)[i];
    if (status && request->quiet) continue;
    xml.open(status ? "Deleted" : "Error");
    xml.add("Key", request->entries[i].key);
    if (!status) {
      const Refusal refusal = refusal_of(status.error(), About::kObject);
      xml.add("Code", refusal.code);
      xml.add("Message", refusal.message);
    }
    xml.close();
  }
  co_return co_await call.send_xml(200, xml.finish());
}

net::Task<Status> get_tags(Call& call) {
  call.operation = "get_tags";
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object) co_return co_await call.refuse(object.error(), About::kObject);
  XmlWriter xml("Tagging");
  xml.open("TagSet");
  for (const auto& [name, value] : (*object)->record().tags) {
    xml.open("Tag");
    xml.add("Key", name);
    xml.add("Value", value);
    xml.close();
  }
  co_return co_await call.send_xml(200, xml.finish());
}

namespace {
net::Task<Status> change_tags(Call& call, std::vector<NameValue> tags, int status) {
  store::Store& store = call.store();
  auto work = [&store, bucket = call.bucket, key = call.key, tags] {
    return store.set_tags(bucket, key, tags);
  };
  auto changed = co_await call.blocking(std::move(work));
  if (!changed) co_return co_await call.refuse(changed.error(), About::kObject);
  co_return co_await call.send_empty(status);
}
}  // namespace

net::Task<Status> put_tags(Call& call) {
  call.operation = "put_tags";
  auto text = co_await read_document(call, kMaxXmlBody);
  if (!text) co_return co_await call.refuse(text.error(), About::kObject);
  auto tags = parse_tagging(*text);
  if (!tags) co_return co_await call.refuse(tags.error(), About::kObject);
  co_return co_await change_tags(call, tags.take(), 200);
}

net::Task<Status> delete_tags(Call& call) {
  call.operation = "delete_tags";
  std::vector<NameValue> none;
  co_return co_await change_tags(call, std::move(none), 204);
}

}  // namespace millrace::cluster
