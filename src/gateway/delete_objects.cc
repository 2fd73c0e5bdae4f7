// Deletes: one object, or many in one request.
#include "gateway/delete_objects.h"

#include <future>

#include "base/number.h"
#include "base/text.h"
#include "gateway/conditions.h"
#include "gateway/s3_errors.h"
#include "gateway/s3_xml.h"
#include "gateway/upload_body.h"
#include "store/waiting.h"

namespace millrace::gateway {

namespace {

constexpr size_t kMaxXmlBody = 2 << 20;

Result<store::Condition> delete_condition(const Call& call) {
  store::Condition condition;
  if (const auto match = call.request().find("if-match"))
    condition.only_if_etag = std::string(unquoted_etag(*match));
  if (const auto size = call.request().find("x-amz-if-match-size")) {
    const auto bytes = parse_number<uint64_t>(*size);
    if (!bytes) return make_error(Code::kInvalid, "x-amz-if-match-size is not a number");
    condition.only_if_size = *bytes;
  }
  if (const auto time = call.request().find("x-amz-if-match-last-modified-time"))
    condition.only_if_modified_ms = MR_TRY(parse_date(*time).within("x-amz-if-match-last-modified-time"));
  return condition;
}

}  // namespace

net::Task<Status> delete_object(Call& call) {
  auto condition = delete_condition(call);
  if (!condition) co_return co_await call.refuse(condition.error());
  std::function<void(store::Done<void>)> remove = [&call,
                                                   condition = condition.take()](store::Done<void> done) {
    call.objects().remove(call.bucket, call.key, condition, std::move(done));
  };
  auto removed = co_await call.ask<void>(std::move(remove));
  if (!removed) co_return co_await call.refuse(removed.error());
  co_return co_await call.send_empty(204);
}

namespace {

// All at once into the store, so that they share a group commit; returns when the last is through.
std::vector<Status> remove_all(store::Objects& objects, const std::string& bucket,
                               const DeleteRequest& request) {
  std::vector<std::future<Status>> removals;
  for (const DeleteRequest::Entry& entry : request.entries) {
    removals.push_back(store::ask_for<void>([&](store::Done<void> done) {
      objects.remove(bucket, entry.key, entry.condition, std::move(done));
    }));
  }
  std::vector<Status> results;
  for (auto& removal : removals) results.push_back(removal.get());
  return results;
}

}  // namespace

net::Task<Status> delete_objects(Call& call) {
  auto text = co_await read_document(call, kMaxXmlBody);
  if (!text) co_return co_await call.refuse(text.error());
  auto request = parse_delete(*text);
  if (!request) co_return co_await call.refuse(request.error());
  store::Objects& objects = call.objects();
  auto work = [&objects, bucket = call.bucket, &request = *request]() -> Result<std::vector<Status>> {
    return remove_all(objects, bucket, request);
  };
  auto removed = co_await call.blocking_long(std::move(work));
  if (!removed) co_return co_await call.refuse(removed.error());
  XmlWriter xml("DeleteResult");
  for (size_t i = 0; i < request->entries.size(); ++i) {
    const Status& status = (*removed)[i];
    call.touch(request->entries[i].key, status);
    if (status && request->quiet) continue;
    xml.open(status ? "Deleted" : "Error");
    xml.add("Key", request->entries[i].key);
    if (!status) {
      const Refusal refusal = refusal_of(status.error());
      xml.add("Code", refusal.code());
      xml.add("Message", refusal.message);
    }
    xml.close();
  }
  co_return co_await call.send_xml(200, xml.finish());
}

}  // namespace millrace::gateway
