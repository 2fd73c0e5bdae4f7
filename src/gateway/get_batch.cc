// POST bucket?batch: many samples, members and ranges of many objects as one tar, in the order asked for.
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "gateway/batch_request.h"
#include "gateway/get_object.h"
#include "gateway/missing_entry.h"
#include "gateway/read_ahead.h"
#include "gateway/shards.h"
#include "gateway/transforms.h"
#include "gateway/upload_body.h"
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

// The objects of a batch by key. Each is looked up once, and many at a time: in a cluster, nodes are asked.
using FoundObjects = std::map<std::string, Result<store::ObjectPointer>, std::less<>>;

FoundObjects find_objects(store::Objects& objects, const std::string& bucket,
                          const std::vector<BatchEntry>& entries) {
  constexpr size_t kAtOnce = 32;
  FoundObjects found;
  std::deque<std::pair<std::string, std::future<Result<store::ObjectPointer>>>> asked;
  const auto hear_first = [&] {
    found.at(asked.front().first) = asked.front().second.get();
    asked.pop_front();
  };
  for (const BatchEntry& entry : entries) {
    const auto [place, is_new] = found.try_emplace(entry.object);
    if (!is_new) continue;
    if (auto hot = objects.find(bucket, entry.object)) {
      place->second = std::move(hot);
      continue;
    }
    if (asked.size() == kAtOnce) hear_first();
    const auto outcome = std::make_shared<std::promise<Result<store::ObjectPointer>>>();
    asked.emplace_back(entry.object, outcome->get_future());
    objects.get(bucket, entry.object,
                [outcome](Result<store::ObjectPointer> object) { outcome->set_value(std::move(object)); });
  }
  while (!asked.empty()) hear_first();
  return found;
}

Result<BatchPart> grant(Unpacker& unpacker, ShardIndexes& indexes, const FoundObjects& objects,
                        const BatchEntry& entry) {
  const Result<store::ObjectPointer>& found = objects.at(entry.object);
  if (!found) return found.error().copy();
  const store::ObjectPointer& object = *found;
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
  const FoundObjects objects = find_objects(indexes.objects(), bucket, plan.request.entries);
  Json missing = Json::array();
  for (size_t i = 0; i < plan.request.entries.size(); ++i) {
    const BatchEntry& entry = plan.request.entries[i];
    auto part = grant(unpacker, indexes, objects, entry);
    if (!part) {
      // Only what is missing is reported in the stream; a drive that fails is an error of the whole request.
      const Code code = part.error().code();
      if (code != Code::kNotFound && code != Code::kInvalid) return part.take_error();
      Json what = missing_json(entry, i, part.error());
      part = BatchPart{.missing = MR_TRY(report_missing(what, i)), .range = {}};
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

// Whether the bytes are sent as they are stored, from drives or other nodes.
bool is_read_ahead(const BatchPart& part) {
  return part.range && part.range->compression == tar::Compression::kNone && part.range->size > 0 &&
         !part.range->object->is_inline();
}

// Each object once, for the audit.
void touch_all(Call& call, const Plan& plan) {
  if (call.services.audit == nullptr) return;
  std::map<std::string_view, bool> found;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    bool& there = found[plan.request.entries[i].object];
    there = there || plan.parts[i].range.has_value();
  }
  for (const auto& [object, there] : found) {
    const std::string key(object);
    call.touch(key, there ? Status() : Status(store::no_such_object(call.bucket, key)));
  }
}

// Sends the entries of a batch in order, while the next ones are being read.
class BatchSender {
 public:
  BatchSender(Call& call, Plan& plan)
      : call_(call),
        plan_(plan),
        unpacker_(call.objects(), call.services.memory.work),
        ahead_(call.objects()) {}

  net::Task<Status> send(size_t position);

 private:
  void begin_next();

  Call& call_;
  Plan& plan_;
  Unpacker unpacker_;
  ReadAhead ahead_;
  size_t next_ = 0;  // the first entry that was not looked at yet
};

void BatchSender::begin_next() {
  for (; next_ < plan_.parts.size() && ahead_.has_room(); ++next_) {
    const BatchPart& part = plan_.parts[next_];
    if (is_read_ahead(part)) ahead_.begin(part.range->object, {part.range->offset, part.range->size});
  }
}

net::Task<Status> BatchSender::send(size_t position) {
  begin_next();
  BatchPart& part = plan_.parts[position];
  if (!part.range) co_return co_await call_.connection.send_bytes(part.missing);
  auto header = header_of(part, plan_.request.entries[position]);
  if (!header) co_return header.take_error();
  auto before = co_await call_.connection.send_bytes(*header);
  if (!before) co_return before;
  static constexpr char kZeros[tar::kBlock] = {};
  const uint64_t padding = padding_of(part);
  Status body;
  if (is_read_ahead(part)) {
    body = co_await ahead_.send_next(call_);
  } else {
    body = co_await send_tar_range(call_, std::move(*part.range), unpacker_);
  }
  if (!body) co_return body;
  co_return co_await call_.connection.send_bytes(std::string_view(kZeros, padding));
}

}  // namespace

net::Task<Status> get_batch(Call& call) {
  if (call.has_query("transform")) co_return co_await get_transformed_batch(call);
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
  touch_all(call, *plan);
  call.keep_reserved(text_bytes + plan->parts.size() * (sizeof(BatchEntry) + sizeof(BatchPart)));
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/x-tar");
  const std::string zeros(2 * tar::kBlock, 0);
  auto sent = co_await call.connection.send_head(plan->size + zeros.size());
  if (!sent) co_return sent;
  BatchSender sender(call, *plan);
  for (size_t i = 0; i < plan->parts.size(); ++i) {
    auto part = co_await sender.send(i);
    if (!part) co_return part;
  }
  auto tail = co_await call.connection.send_bytes(zeros);
  if (!tail) co_return tail;
  co_return co_await call.connection.end_body();
}

}  // namespace millrace::gateway
