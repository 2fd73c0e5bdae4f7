// POST bucket?batch: many samples, members and ranges of many objects as one tar, in the order asked for.
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cluster/batch_request.h"
#include "cluster/body.h"
#include "cluster/read.h"
#include "cluster/shards.h"
#include "tar/format.h"
#include "tar/writer.h"

namespace millrace::cluster {

namespace {

using Json = nlohmann::ordered_json;
using store::Object;

constexpr size_t kMaxBatchBody = 16 << 20;
// What one entry became: blocks of tar around a stretch of an object.
struct Piece {
  std::string before;  // header blocks
  std::optional<Stretch> stretch;
  uint64_t padding = 0;
  uint64_t size() const { return before.size() + (stretch ? stretch->size : 0) + padding; }
};

uint64_t padding_of(uint64_t size) {
  return tar::padded(size) - size;
}

Result<Piece> wrap(std::string_view name, Stretch stretch) {
  Piece piece;
  piece.before = MR_TRY(tar::make_header({.name = name, .size = stretch.size}));
  piece.padding = padding_of(stretch.size);
  piece.stretch = std::move(stretch);
  return piece;
}

Result<Piece> grant(Unpacker& unpacker, ShardIndexes& indexes, const std::string& bucket,
                    const BatchEntry& entry) {
  const auto object = MR_TRY(indexes.store().get_object(bucket, entry.object));
  if (entry.sample) {
    Piece piece;
    piece.stretch = MR_TRY(find_samples(indexes, object, *entry.sample, *entry.sample));
    return piece;
  }
  if (entry.member) {
    return wrap(entry.name.empty() ? *entry.member : entry.name,
                MR_TRY(find_member(unpacker, indexes, object, *entry.member)));
  }
  ParsedRange range{RangeKind::kWhole, {}};
  if (entry.range) range = parse_range(*entry.range, object->record().size);
  if (range.kind == RangeKind::kUnsatisfiable || (entry.range && range.kind == RangeKind::kWhole)) {
    return make_error(Code::kInvalid, "InvalidRange: {} of {} with {} bytes", printable(*entry.range, 64),
                      entry.object, object->record().size);
  }
  if (range.kind == RangeKind::kWhole) range.range = {0, object->record().size};
  return wrap(entry.name.empty() ? entry.object : entry.name,
              Stretch{object, tar::Compression::kNone, range.range.offset, range.range.size});
}

Json missing_json(const BatchEntry& entry, size_t position, const Error& error) {
  const Refusal refusal = refusal_of(error, About::kObject);
  Json json = {{"position", position}, {"object", entry.object}};
  if (entry.sample) json["sample"] = *entry.sample;
  if (entry.member) json["member"] = *entry.member;
  if (entry.range) json["range"] = *entry.range;
  json["code"] = refusal.code;
  json["message"] = refusal.message;
  return json;
}

// A member that says what is not there, in the place where it would have been.
Result<Piece> report_missing(const Json& json, size_t position) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  Piece piece;
  piece.before = MR_TRY(
      tar::make_header({.name = fmt::format("__missing__/{:06}.json", position), .size = text.size()}));
  text.resize(tar::padded(text.size()));
  piece.before += text;
  return piece;
}

// Where everything is and how long; nothing is unpacked to be kept.
Result<std::vector<Piece>> grant_all(ShardIndexes& indexes, const std::string& bucket,
                                     const BatchRequest& batch) {
  Unpacker unpacker(indexes.store());
  std::vector<Piece> pieces;
  pieces.reserve(batch.entries.size());
  Json missing = Json::array();
  for (size_t i = 0; i < batch.entries.size(); ++i) {
    auto piece = grant(unpacker, indexes, bucket, batch.entries[i]);
    if (piece) {
      pieces.push_back(piece.take());
      continue;
    }
    // Only what is missing is reported in the stream; a drive that fails is an error of the whole request.
    const Code code = piece.error().code();
    if (code != Code::kNotFound && code != Code::kInvalid) return piece.take_error();
    missing.push_back(missing_json(batch.entries[i], i, piece.error()));
    pieces.push_back(MR_TRY(report_missing(missing.back(), i)));
  }
  if (batch.fail_on_missing && !missing.empty()) {
    return make_error(Code::kNotFound, "NoSuchKey: {} of {} entries are missing: {}", missing.size(),
                      batch.entries.size(), missing.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return pieces;
}

}  // namespace

net::Task<Status> get_batch(Call& call, ShardIndexes& indexes) {
  call.operation = "get_batch";
  auto text = co_await read_document(call, kMaxBatchBody);
  if (!text) co_return co_await call.refuse(text.error(), About::kBucket);
  auto batch = parse_batch_request(*text);
  if (!batch) co_return co_await call.refuse(batch.error(), About::kBucket);
  auto work = [&indexes, bucket = call.bucket, request = batch.take()] {
    return grant_all(indexes, bucket, request);
  };
  auto pieces = co_await call.blocking_long(std::move(work));
  if (!pieces) co_return co_await call.refuse(pieces.error(), About::kObject);
  const std::string zeros(2 * tar::kBlock, 0);
  uint64_t total = zeros.size();
  for (const Piece& piece : *pieces) total += piece.size();
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/x-tar");
  auto sent = co_await call.connection.send_head(total);
  if (!sent) co_return sent;
  Unpacker unpacker(call.store());
  for (Piece& piece : *pieces) {
    auto before = co_await call.connection.send_bytes(piece.before);
    if (!before) co_return before;
    if (piece.stretch) {
      auto body = co_await send_stretch(call, std::move(*piece.stretch), unpacker);
      if (!body) co_return body;
    }
    auto after = co_await call.connection.send_bytes(std::string_view(zeros).substr(0, piece.padding));
    if (!after) co_return after;
  }
  auto tail = co_await call.connection.send_bytes(zeros);
  if (!tail) co_return tail;
  co_return co_await call.connection.end_body();
}

}  // namespace millrace::cluster
