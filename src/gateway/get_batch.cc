// POST bucket?batch: many samples, members and ranges of many objects as one tar, in the order asked for.
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "gateway/batch_request.h"
#include "gateway/get_object.h"
#include "gateway/shards.h"
#include "gateway/upload_body.h"
#include "store/waiting.h"
#include "tar/format.h"
#include "tar/writer.h"

namespace millrace::gateway {

namespace {

using Json = nlohmann::ordered_json;
using store::Object;

constexpr size_t kMaxBatchBody = 16 << 20;
// Text becomes a tree, entries and parts: this much for each element of the JSON, and the text's own bytes
// thrice.
constexpr uint64_t kElementBytes = 160;
constexpr uint64_t kTextCopies = 3;

// What one entry became: blocks of tar around a range of an object. Headers are made when they are sent.
struct BatchPart {
  std::string missing;  // a whole member, instead of the rest
  std::optional<TarRange> range;
  bool is_wrapped = false;  // the range is the data of one member, which has no header of its own
};

uint64_t padding_of(const BatchPart& part) {
  return part.is_wrapped ? tar::padded(part.range->size) - part.range->size : 0;
}

std::string_view name_of(const BatchEntry& entry) {
  if (!entry.name.empty()) return entry.name;
  return entry.member ? *entry.member : entry.object;
}

Result<std::string> header_of(const BatchPart& part, const BatchEntry& entry) {
  if (!part.is_wrapped) return std::string();
  return tar::make_header({.name = name_of(entry), .size = part.range->size});
}

Result<store::ObjectPointer> get_object(store::Objects& objects, const std::string& bucket,
                                        const std::string& key) {
  if (auto hot = objects.find(bucket, key)) return hot;
  return store::wait_for<store::ObjectPointer>(
      [&](store::Done<store::ObjectPointer> done) { objects.get(bucket, key, std::move(done)); });
}

Result<BatchPart> grant(Unpacker& unpacker, ShardIndexes& indexes, const std::string& bucket,
                        const BatchEntry& entry) {
  const auto object = MR_TRY(get_object(indexes.objects(), bucket, entry.object));
  BatchPart part;
  if (entry.sample) {
    part.range = MR_TRY(find_samples(indexes, object, *entry.sample, *entry.sample));
    return part;
  }
  part.is_wrapped = true;
  if (entry.member) {
    part.range = MR_TRY(find_member(unpacker, indexes, object, *entry.member));
    return part;
  }
  ParsedRange range{RangeKind::kWhole, {}};
  if (entry.range) range = parse_range(*entry.range, object->record().size);
  if (range.kind == RangeKind::kUnsatisfiable || (entry.range && range.kind == RangeKind::kWhole)) {
    return make_error(kInvalidRange, "{} of {} with {} bytes", printable(*entry.range, 64), entry.object,
                      object->record().size);
  }
  if (range.kind == RangeKind::kWhole) range.range = {0, object->record().size};
  part.range = TarRange{object, tar::Compression::kNone, range.range.offset, range.range.size};
  return part;
}

Json missing_json(const BatchEntry& entry, size_t position, const Error& error) {
  const Refusal refusal = refusal_of(error);
  Json json = {{"position", position}, {"object", entry.object}};
  if (entry.sample) json["sample"] = *entry.sample;
  if (entry.member) json["member"] = *entry.member;
  if (entry.range) json["range"] = *entry.range;
  json["code"] = refusal.code();
  json["message"] = refusal.message;
  return json;
}

// A member that says what is not there, in the place where it would have been.
Result<BatchPart> report_missing(const Json& json, size_t position) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  BatchPart part;
  part.missing = MR_TRY(
      tar::make_header({.name = fmt::format("__missing__/{:06}.json", position), .size = text.size()}));
  text.resize(tar::padded(text.size()));
  part.missing += text;
  return part;
}

struct Plan {
  BatchRequest request;
  std::vector<BatchPart> parts;  // one for each entry
  uint64_t size = 0;
};

// Where everything is and how long; nothing is unpacked to be kept.
Result<Plan> make_plan(ShardIndexes& indexes, const std::string& bucket, BatchRequest batch) {
  Unpacker unpacker(indexes.objects(), indexes.memory().work);
  Plan plan{std::move(batch), {}, 0};
  plan.parts.reserve(plan.request.entries.size());
  Json missing = Json::array();
  for (size_t i = 0; i < plan.request.entries.size(); ++i) {
    const BatchEntry& entry = plan.request.entries[i];
    auto part = grant(unpacker, indexes, bucket, entry);
    if (!part) {
      // Only what is missing is reported in the stream; a drive that fails is an error of the whole request.
      const Code code = part.error().code();
      if (code != Code::kNotFound && code != Code::kInvalid) return part.take_error();
      Json what = missing_json(entry, i, part.error());
      part = MR_TRY(report_missing(what, i));
      if (plan.request.fail_on_missing) missing.push_back(std::move(what));
    }
    const uint64_t header = MR_TRY(header_of(*part, entry)).size();
    plan.size += part->missing.size() + header + (part->range ? part->range->size : 0) + padding_of(*part);
    plan.parts.push_back(part.take());
  }
  if (!missing.empty()) {
    return make_error(store::kNoSuchObject, "{} of {} entries are missing: {}", missing.size(),
                      plan.request.entries.size(),
                      missing.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return plan;
}

net::Task<Status> send_part(Call& call, BatchPart& part, const BatchEntry& entry, Unpacker& unpacker) {
  if (!part.range) co_return co_await call.connection.send_bytes(part.missing);
  auto header = header_of(part, entry);
  if (!header) co_return header.take_error();
  auto before = co_await call.connection.send_bytes(*header);
  if (!before) co_return before;
  static constexpr char kZeros[tar::kBlock] = {};
  const uint64_t padding = padding_of(part);
  auto body = co_await send_tar_range(call, std::move(*part.range), unpacker);
  if (!body) co_return body;
  co_return co_await call.connection.send_bytes(std::string_view(kZeros, padding));
}

}  // namespace

net::Task<Status> get_batch(Call& call) {
  ShardIndexes& indexes = call.services.indexes;
  auto text = co_await read_document(call, kMaxBatchBody);
  if (!text) co_return co_await call.refuse(text.error());
  auto elements = count_elements(*text);
  if (!elements) co_return co_await call.refuse(elements.error());
  const uint64_t text_bytes = text->size();
  auto reserved = co_await call.reserve(kTextCopies * text_bytes + *elements * kElementBytes);
  if (!reserved) co_return co_await call.refuse(reserved.error());
  auto work = [&indexes, bucket = call.bucket, body = text.take()]() mutable -> Result<Plan> {
    BatchRequest request = MR_TRY(parse_batch_request(body));
    body = {};
    return make_plan(indexes, bucket, std::move(request));
  };
  auto plan = co_await call.blocking_long(std::move(work));
  call.document = Charge();
  if (!plan) co_return co_await call.refuse(plan.error());
  call.keep_reserved(text_bytes + plan->parts.size() * (sizeof(BatchEntry) + sizeof(BatchPart)));
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/x-tar");
  const std::string zeros(2 * tar::kBlock, 0);
  auto sent = co_await call.connection.send_head(plan->size + zeros.size());
  if (!sent) co_return sent;
  Unpacker unpacker(call.objects(), call.services.memory.work);
  for (size_t i = 0; i < plan->parts.size(); ++i) {
    auto part = co_await send_part(call, plan->parts[i], plan->request.entries[i], unpacker);
    if (!part) co_return part;
  }
  auto tail = co_await call.connection.send_bytes(zeros);
  if (!tail) co_return tail;
  co_return co_await call.connection.end_body();
}

}  // namespace millrace::gateway
