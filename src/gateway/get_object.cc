// GET and HEAD of an object: conditions, ranges, headers, and its bytes as they become ready.
#include "gateway/get_object.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "gateway/object_checksum.h"
#include "gateway/shards.h"
#include "net/where.h"

namespace millrace::gateway {

namespace {

using store::Object;

constexpr std::string_view kOverrides[] = {"content-type",  "content-language",    "expires",
                                           "cache-control", "content-disposition", "content-encoding"};

// The next bytes of an object, where sending does not wait for a drive.
net::Task<Result<store::Extent>> bring(Call& call, store::Reader& reader, ByteRange range) {
  if (auto ready = reader.find_ready(range.offset, range.size)) co_return std::move(*ready);
  std::function<void(store::Done<store::Extent>)> start = [&reader, range](store::Done<store::Extent> done) {
    reader.prepare(range.offset, range.size, std::move(done));
  };
  co_return co_await call.ask<store::Extent>(std::move(start));
}

net::Task<Status> send_extent(net::Connection& connection, store::Extent extent) {
  if (extent.file == nullptr) co_return co_await connection.send_bytes(extent.bytes());
  co_return co_await connection.send_file(extent.file->descriptor(), extent.offset, extent.size);
}

// All bytes of the range, as they become ready.
net::Task<Status> send_range(Call& call, store::Reader& reader, ByteRange range) {
  while (range.size > 0) {
    auto ready = co_await bring(call, reader, range);
    if (!ready) {
      note_unread(call, ready.error());
      co_return ready.take_error();
    }
    range.offset += ready->size;
    range.size -= ready->size;
    auto sent = co_await send_extent(call.connection, ready.take());
    if (!sent) co_return sent;
  }
  co_return Status();
}

net::Task<Status> respond(Call& call, store::ObjectPointer object, ParsedRange asked) {
  const store::Record& record = object->record();
  if (asked.kind != RangeKind::kPart) asked.range = {0, record.size};
  const bool has_body = call.method() != "HEAD" && asked.range.size > 0 && !object->is_inline();
  std::unique_ptr<store::Reader> reader;
  std::optional<store::Extent> first;
  if (has_body) {
    reader = call.objects().open(object, store::Comparing::kAsBucketSays);
    // Before the head: what cannot be read is an error then, and not an answer that is cut.
    auto brought = co_await bring(call, *reader, asked.range);
    if (!brought) co_return co_await call.refuse(brought.error());
    first = brought.take();
  }
  net::HeadBuilder& head =
      call.connection.start(asked.kind == RangeKind::kPart && asked.range.size > 0 ? 206 : 200);
  add_object_headers(call, *object, asked.kind);
  if (const std::string where = call.objects().where(*object); !where.empty())
    head.add(net::kWhereHeader, where);
  if (const std::string nodes = call.objects().nodes(*object); !nodes.empty())
    head.add(net::kNodesHeader, nodes);
  const bool in_parts = record.pieces.size() > 1 || find_header(record.headers, kUploadHeader) != nullptr;
  if (in_parts && call.find_query("partNumber")) head.add("x-amz-mp-parts-count", record.pieces.size());
  if (asked.kind == RangeKind::kPart && asked.range.size > 0) {
    head.add("Content-Range", fmt::format("bytes {}-{}/{}", asked.range.offset,
                                          asked.range.offset + asked.range.size - 1, record.size));
  }
  if (object->is_inline()) {
    co_return co_await call.connection.send(
        std::string_view(object->inline_bytes()).substr(asked.range.offset, asked.range.size));
  }
  auto sent = co_await call.connection.send_head(asked.range.size);
  if (!sent || !first) co_return sent;
  auto body = co_await send_brought(call, *reader, std::move(*first), asked.range);
  if (!body) co_return body;
  co_return co_await call.connection.end_body();
}

enum class Redirects { kYes, kNo };

// Whoever follows redirects, and will reach another node as well as this one. A signature is for one host; a
// page in a browser may not read what another host sends; who was sent here is not sent on; who came under
// TLS stays under TLS, which another node may not speak.
Result<Redirects> judge_redirects(const Call& call) {
  const net::RequestHead& request = call.request();
  const auto wish = request.find(net::kRedirectHeader);
  if (wish && *wish != "yes" && *wish != "no")
    return make_error(kInvalidRequest, "{} is yes or no, not {}", net::kRedirectHeader, printable(*wish, 32));
  if (call.method() != "GET" || (wish && *wish == "no")) return Redirects::kNo;
  if (call.connection.is_encrypted()) return Redirects::kNo;
  if (!call.query.empty() && call.has_query(net::kHopQuery)) return Redirects::kNo;
  if (request.find("origin") || request.find("sec-fetch-site")) return Redirects::kNo;
  if (!looks_signed(request)) return Redirects::kYes;
  return wish && request.find("authorization") ? Redirects::kYes : Redirects::kNo;
}

}  // namespace

Result<std::optional<std::string>> find_redirect(Call& call, const Object& object, ByteRange range) {
  if (object.is_inline() || range.size == 0) return std::nullopt;
  if (MR_TRY(judge_redirects(call)) == Redirects::kNo) return std::nullopt;
  return call.objects().find_holder(object, range.offset, range.size);
}

net::Task<Status> redirect(Call& call, std::string address) {
  std::string query(call.request().query);
  if (!query.empty()) query += '&';
  net::HeadBuilder& head = call.connection.start(307);
  head.add("Location", fmt::format("http://{}/{}/{}?{}{}=1", address,
                                   net::percent_encode(call.bucket, net::Encode::kPath),
                                   net::percent_encode(call.key, net::Encode::kPath), query, net::kHopQuery));
  co_return co_await call.connection.send({});
}

namespace {

// One part of a multipart object, as clients ask for when they download in parallel.
Result<ParsedRange> part_range(const store::Record& record, const std::string& text) {
  const unsigned number = parse_number<unsigned>(text).value_or(0);
  if (number == 0) {
    return make_error(Code::kInvalid, "partNumber is not a number from 1 on");
  }
  const size_t parts = std::max<size_t>(record.pieces.size(), 1);
  if (number > parts) return make_error(kInvalidRange, "the object has {} parts", parts);
  ParsedRange range{RangeKind::kPart, {0, record.size}};
  if (record.pieces.empty()) return range;
  for (unsigned i = 0; i + 1 < number; ++i) range.range.offset += record.pieces[i].size;
  range.range.size = record.pieces[number - 1].size;
  return range;
}

}  // namespace

void note_unread(Call& call, const Error& error) {
  call.services.log.warn("reading failed", "bucket", call.bucket, "key", call.key, "error", error.message());
}

net::Task<Status> send_brought(Call& call, store::Reader& reader, store::Extent first, ByteRange range) {
  const ByteRange left{range.offset + first.size, range.size - first.size};
  auto begun = co_await send_extent(call.connection, std::move(first));
  if (!begun) co_return begun;
  co_return co_await send_range(call, reader, left);
}

net::Task<Status> answer_verdict(Call& call, const store::Record& record, Verdict verdict) {
  if (verdict == Verdict::kFailed) {
    Refusal refusal{&store::kConditionFailed, "the object is not the one that the condition names", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  net::HeadBuilder& head = call.connection.start(304);
  head.add("ETag", quoted_etag(record.etag));
  head.add("Last-Modified", format_http_date(record.modified_ms));
  co_return co_await call.connection.send({});
}

ParsedRange parse_range(std::string_view text, uint64_t size) {
  const ParsedRange whole;
  if (!text.starts_with("bytes=") || text.find(',') != std::string_view::npos) return whole;
  text.remove_prefix(6);
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view first_text = text.substr(0, dash);
  const std::string_view last_text = text.substr(dash + 1);
  const auto last = parse_number<uint64_t>(last_text);
  if (first_text.empty()) {
    if (!last) return whole;
    if (*last == 0 || size == 0) return {RangeKind::kUnsatisfiable, {}};
    const uint64_t count = std::min(*last, size);
    return {RangeKind::kPart, {size - count, count}};
  }
  const auto first = parse_number<uint64_t>(first_text);
  if (!first || (!last && !last_text.empty()) || (last && *last < *first)) return whole;
  if (*first >= size) return {RangeKind::kUnsatisfiable, {}};
  const uint64_t end = last ? std::min(*last + 1 == 0 ? UINT64_MAX : *last + 1, size) : size;
  return {RangeKind::kPart, {*first, end - *first}};
}

void add_object_headers(Call& call, const Object& object, RangeKind kind) {
  const store::Record& record = object.record();
  net::HeadBuilder& head = call.connection.head();
  const bool checksums =
      kind == RangeKind::kWhole && net::equal_names(call.request().get("x-amz-checksum-mode"), "enabled");
  const bool usual = call.query.empty() && !checksums;
  if (usual) {
    if (const auto known = object.attachment.load()) return head.add_lines(*known);
  }
  const size_t before = head.text().size();
  head.add("ETag", quoted_etag(record.etag));
  head.add("Last-Modified", format_http_date(record.modified_ms));
  head.add("Accept-Ranges", "bytes");
  bool typed = false;
  for (const auto& [name, value] : record.headers) {
    if (name.starts_with("x-amz-checksum-") || name == kUploadHeader) continue;
    if (!call.query.empty() && call.has_query("response-" + name)) continue;
    if (name == "content-type") typed = true;
    head.add(name, value);
  }
  // What the drive's bytes were compared with, for clients that want to compare what they got: of the whole
  // object.
  // An object that is only upstream has not been compared with anything here.
  const store::Cached cached = call.objects().cached(object);
  const std::string crc = cached == store::Cached::kNo ? "" : whole_crc(record);
  if (!crc.empty()) head.add("x-millrace-crc32c", crc);
  if (cached != store::Cached::kNoUpstream)
    head.add("x-millrace-cached", cached == store::Cached::kYes ? "yes" : "no");
  if (checksums) {
    std::vector<store::NameValue> known = object_checksums(record);
    if (known.empty() && !crc.empty())
      known = {{"x-amz-checksum-crc32c", crc}, {std::string(kChecksumType), "FULL_OBJECT"}};
    for (const auto& [name, value] : known) head.add(name, value);
  }
  if (!call.query.empty()) {
    for (const std::string_view name : kOverrides) {
      const auto value = call.find_query("response-" + std::string(name));
      if (!value) continue;
      if (name == "content-type") typed = true;
      head.add(name, *value);
    }
  }
  if (!typed) head.add("Content-Type", "binary/octet-stream");
  if (!record.tags.empty()) head.add("x-amz-tagging-count", record.tags.size());
  if (record.shard != store::ShardState::kNone) head.add("x-millrace-index", shard_state_name(record.shard));
  if (record.shard == store::ShardState::kReady) head.add("x-millrace-samples", record.shard_samples);
  if (usual) object.attachment.store(std::make_shared<std::string>(head.text().substr(before)));
}

net::Task<Result<store::ObjectPointer>> find_object(Call& call, std::string bucket, std::string key) {
  auto hot = call.objects().find(bucket, key);
  if (hot) co_return hot;
  std::function<void(store::Done<store::ObjectPointer>)> get = [&call, bucket,
                                                                key](store::Done<store::ObjectPointer> done) {
    call.objects().get(bucket, key, std::move(done));
  };
  co_return co_await call.ask<store::ObjectPointer>(std::move(get));
}

net::Task<Status> send_stored(Call& call, store::ObjectPointer object, ByteRange range) {
  if (object->is_inline()) {
    co_return co_await call.connection.send_bytes(
        std::string_view(object->inline_bytes()).substr(range.offset, range.size));
  }
  const std::unique_ptr<store::Reader> reader =
      call.objects().open(std::move(object), store::Comparing::kAsBucketSays);
  co_return co_await send_range(call, *reader, range);
}

net::Task<Status> get_object(Call& call) {
  store::ObjectPointer object = call.objects().find(call.bucket, call.key);
  if (!object) {
    auto found = co_await find_object(call, call.bucket, call.key);
    if (!found) co_return co_await call.refuse(found.error());
    object = found.take();
  }
  const store::Record& record = object->record();
  const Verdict verdict = judge_read(call.request(), record);
  if (verdict != Verdict::kGo) co_return co_await answer_verdict(call, record, verdict);
  ParsedRange asked;
  if (const auto part = call.find_query("partNumber")) {
    auto range = part_range(record, std::string(*part));
    if (!range) co_return co_await call.refuse(range.error());
    asked = range.take();
  } else if (const auto range = call.request().find("range");
             range && range_applies(call.request(), record)) {
    asked = parse_range(*range, record.size);
  }
  if (asked.kind == RangeKind::kUnsatisfiable) {
    Refusal refusal{&kInvalidRange, fmt::format("the object has {} bytes", record.size), ""};
    refusal.content_range = fmt::format("bytes */{}", record.size);
    refusal.details = {{"ActualObjectSize", std::to_string(record.size)},
                       {"RangeRequested", std::string(call.request().get("range"))}};
    co_return co_await call.refuse(std::move(refusal));
  }
  const uint64_t size = asked.kind == RangeKind::kPart ? asked.range.size : record.size;
  const auto holder = find_redirect(call, *object, {asked.range.offset, size});
  if (!holder) co_return co_await call.refuse(holder.error());
  if (*holder) co_return co_await redirect(call, **holder);
  co_return co_await respond(call, object, asked);
}

}  // namespace millrace::gateway
