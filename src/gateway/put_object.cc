// PUT of an object: its headers, conditions and body.
#include "gateway/put_object.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <future>

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "gateway/get_object.h"
#include "gateway/object_checksum.h"
#include "gateway/s3_xml.h"
#include "gateway/upload_body.h"
#include "net/where.h"
#include "store/reasons.h"

namespace millrace::gateway {

namespace {

using store::NameValue;

constexpr std::string_view kKeptHeaders[] = {"content-type",     "content-encoding", "content-disposition",
                                             "content-language", "cache-control",    "expires"};
constexpr size_t kMaxMetadata = 2048;

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
    if (value.size() > kMaxMetadata) return make_error(kMetadataTooLarge, "{} is too long", name);
    if (!value.empty() || is_metadata) kept.emplace_back(name, std::move(value));
  }
  if (metadata > kMaxMetadata) {
    return make_error(kMetadataTooLarge, "user metadata has {} bytes, at most {}", metadata, kMaxMetadata);
  }
  return kept;
}

Result<store::Condition> put_condition(const Call& call) {
  store::Condition condition;
  if (const auto none = call.request().find("if-none-match")) {
    if (*none != "*") return make_error(kNotImplemented, "If-None-Match on a PUT must be *");
    condition.only_if_absent = true;
  }
  if (const auto match = call.request().find("if-match"))
    condition.only_if_etag = std::string(unquoted_etag(*match));
  return condition;
}

net::Task<Status> judge_now(Call& call, store::Condition condition) {
  if (!condition.is_any()) co_return Status();
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object && object.error().code() != Code::kNotFound) co_return Status();
  co_return condition.judge(call.bucket, call.key, object ? &(*object)->record() : nullptr);
}

Result<store::PutOptions> put_options(const Call& call) {
  store::PutOptions options;
  options.bucket = call.bucket;
  options.key = call.key;
  options.headers = MR_TRY(kept_headers(call));
  options.condition = MR_TRY(put_condition(call));
  if (const auto tagging = call.request().find("x-amz-tagging"))
    options.tags = MR_TRY(parse_tagging_header(*tagging));
  return options;
}

net::Task<Status> put_object(Call& call) {
  auto options = put_options(call);
  if (!options) co_return co_await call.refuse(options.error());
  if (call.request().expects_continue) {
    // The client waits with its body: it need not send it in vain.
    auto judged = co_await judge_now(call, options->condition);
    if (!judged) co_return co_await call.refuse(judged.error());
  }
  const auto bucket = call.objects().find_bucket(call.bucket);
  auto body = UploadBody::open(call, bucket ? bucket->settings.etag : store::EtagMode::kAuto);
  if (!body) co_return co_await call.refuse(body.error());
  options->size = body->size();
  auto writer = call.objects().put(options.take());
  if (!writer) co_return co_await call.refuse(writer.error());
  auto object = co_await receive_object(call, *body, **writer);
  if (!object) co_return co_await call.refuse(object.error());
  co_return co_await answer_put(call, **object);
}

net::Task<Status> find_place(Call& call) {
  const auto size = parse_number<uint64_t>(std::string(call.find_query("place").value_or("")));
  if (!size) {
    const Error error = make_error(Code::kInvalid, "place={} is not a number of bytes",
                                   printable(call.find_query("place").value_or(""), 32));
    co_return co_await call.refuse(error);
  }
  if (call.objects().find_bucket(call.bucket) == nullptr)
    co_return co_await call.refuse(store::no_such_bucket(call.bucket));
  const std::string where = call.objects().place(call.bucket, call.key, *size);
  net::HeadBuilder& head = call.connection.start(200);
  if (!where.empty()) head.add(net::kWhereHeader, where);
  co_return co_await call.connection.send({});
}

}  // namespace millrace::gateway
