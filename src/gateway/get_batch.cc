// POST bucket?batch: many samples, members and ranges of many objects as one tar, in the order asked for.
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "gateway/batch_request.h"
#include "gateway/get_object.h"
#include "gateway/shards.h"
#include "gateway/upload_body.h"
#include "tar/format.h"
#include "tar/writer.h"

namespace millrace::gateway {

namespace {

using Json = nlohmann::ordered_json;
using store::Object;

constexpr size_t kMaxBatchBody = 16 << 20;
// Text becomes a tree, entries and pieces: this much for each element of the JSON, and the text's own bytes
// thrice.
constexpr uint64_t kElementBytes = 160;
constexpr uint64_t kTextCopies = 3;

// What one entry became: blocks of tar around a stretch of an object. Headers are made when they are sent.
struct Piece {
  std::string missing;  // a whole member, instead of the rest
  std::optional<Stretch> stretch;
  bool is_wrapped = false;  // the stretch is the data of one member, which has no header of its own
};

uint64_t padding_of(const Piece& piece) {
  return piece.is_wrapped ? tar::padded(piece.stretch->size) - piece.stretch->size : 0;
}

std::string_view name_of(const BatchEntry& entry) {
  if (!entry.name.empty()) return entry.name;
  return entry.member ? *entry.member : entry.object;
}

Result<std::string> header_of(const Piece& piece, const BatchEntry& entry) {
  if (!piece.is_wrapped) return std::string();
  return tar::make_header({.name = name_of(entry), .size = piece.stretch->size});
}

Result<Piece> grant(Unpacker& unpacker, ShardIndexes& indexes, const std::string& bucket,
                    const BatchEntry& entry) {
  const auto object = MR_TRY(indexes.store().get_object(bucket, entry.object));
  Piece piece;
  if (entry.sample) {
    piece.stretch = MR_TRY(find_samples(indexes, object, *entry.sample, *entry.sample));
    return piece;
  }
  piece.is_wrapped = true;
  if (entry.member) {
    piece.stretch = MR_TRY(find_member(unpacker, indexes, object, *entry.member));
    return piece;
  }
  ParsedRange range{RangeKind::kWhole, {}};
  if (entry.range) range = parse_range(*entry.range, object->record().size);
  if (range.kind == RangeKind::kUnsatisfiable || (entry.range && range.kind == RangeKind::kWhole)) {
    return make_error(kInvalidRange, "{} of {} with {} bytes", printable(*entry.range, 64), entry.object,
                      object->record().size);
  }
  if (range.kind == RangeKind::kWhole) range.range = {0, object->record().size};
  piece.stretch = Stretch{object, tar::Compression::kNone, range.range.offset, range.range.size};
  return piece;
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
Result<Piece> report_missing(const Json& json, size_t position) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  Piece piece;
  piece.missing = MR_TRY(
      tar::make_header({.name = fmt::format("__missing__/{:06}.json", position), .size = text.size()}));
  text.resize(tar::padded(text.size()));
  piece.missing += text;
  return piece;
}

struct Plan {
  BatchRequest request;
  std::vector<Piece> pieces;  // one for each entry
  uint64_t size = 0;
};

// Where everything is and how long; nothing is unpacked to be kept.
Result<Plan> make_plan(ShardIndexes& indexes, const std::string& bucket, BatchRequest batch) {
  Unpacker unpacker(indexes.store());
  Plan plan{std::move(batch), {}, 0};
  plan.pieces.reserve(plan.request.entries.size());
  Json missing = Json::array();
  for (size_t i = 0; i < plan.request.entries.size(); ++i) {
    const BatchEntry& entry = plan.request.entries[i];
    auto piece = grant(unpacker, indexes, bucket, entry);
    if (!piece) {
      // Only what is missing is reported in the stream; a drive that fails is an error of the whole request.
      const Code code = piece.error().code();
      if (code != Code::kNotFound && code != Code::kInvalid) return piece.take_error();
      Json what = missing_json(entry, i, piece.error());
      piece = MR_TRY(report_missing(what, i));
      if (plan.request.fail_on_missing) missing.push_back(std::move(what));
    }
    const uint64_t header = MR_TRY(header_of(*piece, entry)).size();
    plan.size +=
        piece->missing.size() + header + (piece->stretch ? piece->stretch->size : 0) + padding_of(*piece);
    plan.pieces.push_back(piece.take());
  }
  if (!missing.empty()) {
    return make_error(store::kNoSuchObject, "{} of {} entries are missing: {}", missing.size(),
                      plan.request.entries.size(),
                      missing.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return plan;
}

net::Task<Status> send_piece(Call& call, Piece& piece, const BatchEntry& entry, Unpacker& unpacker) {
  if (!piece.stretch) co_return co_await call.connection.send_bytes(piece.missing);
  auto header = header_of(piece, entry);
  if (!header) co_return header.take_error();
  auto before = co_await call.connection.send_bytes(*header);
  if (!before) co_return before;
  static constexpr char kZeros[tar::kBlock] = {};
  const uint64_t padding = padding_of(piece);
  auto body = co_await send_stretch(call, std::move(*piece.stretch), unpacker);
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
  call.keep_reserved(text_bytes + plan->pieces.size() * (sizeof(BatchEntry) + sizeof(Piece)));
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/x-tar");
  const std::string zeros(2 * tar::kBlock, 0);
  auto sent = co_await call.connection.send_head(plan->size + zeros.size());
  if (!sent) co_return sent;
  Unpacker unpacker(call.store());
  for (size_t i = 0; i < plan->pieces.size(); ++i) {
    auto piece = co_await send_piece(call, plan->pieces[i], plan->request.entries[i], unpacker);
    if (!piece) co_return piece;
  }
  auto tail = co_await call.connection.send_bytes(zeros);
  if (!tail) co_return tail;
  co_return co_await call.connection.end_body();
}

}  // namespace millrace::gateway
