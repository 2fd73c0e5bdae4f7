// POST bucket?batch: many samples, members and ranges of many objects as one tar, in the order asked for.
#include <nlohmann/json.hpp>

#include "base/text.h"
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
constexpr size_t kMaxEntries = 100'000;

struct Wish {
  std::string object;
  std::optional<uint64_t> sample;
  std::optional<std::string> member;
  std::optional<std::string> range;
  std::string name;  // of the tar member, for members and ranges; empty: the member's or object's own
};

struct Batch {
  std::vector<Wish> wishes;
  bool fail_on_missing = false;
};

// What one wish became: blocks of tar around a stretch of an object.
struct Piece {
  std::string before;  // header blocks
  std::optional<Stretch> stretch;
  uint64_t padding = 0;
  uint64_t size() const { return before.size() + (stretch ? stretch->size : 0) + padding; }
};

Result<Wish> parse_wish(const Json& json, size_t position) {
  const auto bad = [&](std::string_view why) {
    return make_error(Code::kInvalid, "entry {} of the batch {}", position, why);
  };
  if (!json.is_object()) return bad("is not an object");
  Wish wish;
  for (const auto& [name, value] : json.items()) {
    if (name == "object" && value.is_string()) {
      wish.object = value.get<std::string>();
    } else if (name == "sample" && value.is_number_unsigned()) {
      wish.sample = value.get<uint64_t>();
    } else if (name == "member" && value.is_string()) {
      wish.member = value.get<std::string>();
    } else if (name == "range" && value.is_string()) {
      wish.range = value.get<std::string>();
    } else if (name == "name" && value.is_string()) {
      wish.name = value.get<std::string>();
    } else {
      return bad(fmt::format(
          "has a wrong \"{}\": object, member, range (bytes=0-99) and name are text, sample is a number",
          printable(name, 32)));
    }
  }
  if (wish.object.empty()) return bad("names no object");
  if (wish.sample.has_value() + wish.member.has_value() + wish.range.has_value() > 1)
    return bad("asks for two things at once");
  return wish;
}

Result<Batch> parse_batch(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return make_error(Code::kInvalid, "the batch is not JSON");
  Batch batch;
  const Json* entries = &json;
  if (json.is_object()) {
    if (!json.contains("entries")) return make_error(Code::kInvalid, "the batch has no \"entries\"");
    entries = &json.at("entries");
    const std::string missing = json.contains("missing") && json.at("missing").is_string()
                                    ? json.at("missing").get<std::string>()
                                    : "report";
    if (missing != "report" && missing != "error")
      return make_error(Code::kInvalid, "\"missing\" is \"report\" or \"error\"");
    batch.fail_on_missing = missing == "error";
  }
  if (!entries->is_array()) return make_error(Code::kInvalid, "the batch is not a list");
  if (entries->size() > kMaxEntries)
    return make_error(Code::kTooLarge, "the batch has more than {} entries", kMaxEntries);
  for (size_t i = 0; i < entries->size(); ++i) batch.wishes.push_back(MR_TRY(parse_wish((*entries)[i], i)));
  return batch;
}

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

Result<Piece> grant(store::Store& store, ShardIndexes& indexes, const std::string& bucket, const Wish& wish) {
  const auto object = MR_TRY(store.get_object(bucket, wish.object));
  if (wish.sample) {
    Piece piece;
    piece.stretch = MR_TRY(find_samples(store, indexes, object, *wish.sample, *wish.sample));
    return piece;
  }
  if (wish.member) {
    return wrap(wish.name.empty() ? *wish.member : wish.name,
                MR_TRY(find_member(store, indexes, object, *wish.member)));
  }
  ParsedRange range{RangeKind::kWhole, {}};
  if (wish.range) range = parse_range(*wish.range, object->record().size);
  if (range.kind == RangeKind::kUnsatisfiable || (wish.range && range.kind == RangeKind::kWhole)) {
    return make_error(Code::kInvalid, "InvalidRange: {} of {} with {} bytes", printable(*wish.range, 64),
                      wish.object, object->record().size);
  }
  if (range.kind == RangeKind::kWhole) range.range = {0, object->record().size};
  return wrap(wish.name.empty() ? wish.object : wish.name,
              Stretch{object, range.range.offset, range.range.size, std::nullopt});
}

Json missing_json(const Wish& wish, size_t position, const Error& error) {
  const Refusal refusal = refusal_of(error, About::kObject);
  Json json = {{"position", position}, {"object", wish.object}};
  if (wish.sample) json["sample"] = *wish.sample;
  if (wish.member) json["member"] = *wish.member;
  if (wish.range) json["range"] = *wish.range;
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

Result<std::vector<Piece>> grant_all(store::Store& store, ShardIndexes& indexes, const std::string& bucket,
                                     const Batch& batch) {
  std::vector<Piece> pieces;
  pieces.reserve(batch.wishes.size());
  Json missing = Json::array();
  for (size_t i = 0; i < batch.wishes.size(); ++i) {
    auto piece = grant(store, indexes, bucket, batch.wishes[i]);
    if (piece) {
      pieces.push_back(piece.take());
      continue;
    }
    // Only what is missing is reported in the stream; a drive that fails is an error of the whole request.
    const Code code = piece.error().code();
    if (code != Code::kNotFound && code != Code::kInvalid) return piece.take_error();
    missing.push_back(missing_json(batch.wishes[i], i, piece.error()));
    pieces.push_back(MR_TRY(report_missing(missing.back(), i)));
  }
  if (batch.fail_on_missing && !missing.empty()) {
    return make_error(Code::kNotFound, "NoSuchKey: {} of {} entries are missing: {}", missing.size(),
                      batch.wishes.size(), missing.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return pieces;
}

}  // namespace

net::Task<Status> get_batch(Call& call, ShardIndexes& indexes) {
  call.operation = "get_batch";
  auto text = co_await read_document(call, kMaxBatchBody);
  if (!text) co_return co_await call.refuse(text.error(), About::kBucket);
  auto batch = parse_batch(*text);
  if (!batch) co_return co_await call.refuse(batch.error(), About::kBucket);
  store::Store& store = call.store();
  auto work = [&store, &indexes, bucket = call.bucket, wishes = batch.take()] {
    return grant_all(store, indexes, bucket, wishes);
  };
  auto pieces = co_await call.blocking(std::move(work));
  if (!pieces) co_return co_await call.refuse(pieces.error(), About::kObject);
  const std::string zeros(2 * tar::kBlock, 0);
  uint64_t total = zeros.size();
  for (const Piece& piece : *pieces) total += piece.size();
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/x-tar");
  auto sent = co_await call.connection.send_head(total);
  if (!sent) co_return sent;
  for (Piece& piece : *pieces) {
    auto before = co_await call.connection.send_bytes(piece.before);
    if (!before) co_return before;
    if (piece.stretch) {
      auto body = co_await send_stretch(call, std::move(*piece.stretch));
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
