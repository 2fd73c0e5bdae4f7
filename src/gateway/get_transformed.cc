// GET ?transform=NAME: which part of which object, may he, is it kept; then a run, and its bytes as they
// come.
#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "gateway/get_object.h"
#include "gateway/result_flow.h"
#include "gateway/s3_support.h"
#include "gateway/shards.h"
#include "gateway/transform_input.h"
#include "gateway/transforms.h"
#include "net/where.h"
#include "tar/format.h"

namespace millrace::gateway {

namespace {

// A failure up to here is an answer of its own, and not one that is cut.
constexpr uint64_t kHeldBeforeHead = 1 << 20;

// What a request is about, once everything that may be refused was looked at.
struct Asked {
  store::ObjectPointer object;
  std::shared_ptr<const Transform> transform;
  TransformPart part;
  store::Record record;  // with the result's entity tag
  std::string name;      // of the result, where it may be kept; empty: not
};

Result<TransformPart> parse_part(const Call& call) {
  TransformPart part;
  for (const auto& [name, value] : call.query) {
    if (name == "transform" || name == net::kHopQuery || name == "versionId" || is_of_links(name)) continue;
    if (part.what != TransformPart::What::kWhole)
      return make_error(kInvalidArgument, "?transform takes one of sample, samples and member");
    if (name == "sample" || name == "samples") {
      part.what = TransformPart::What::kSamples;
      part.samples = MR_TRY(parse_sample_range(value));
    } else if (name == "member") {
      part.what = TransformPart::What::kMember;
      part.member = value;
    } else {
      return make_error(kInvalidArgument, "?{} makes no sense with ?transform", printable(name, 64))
          .with_hint("sample, samples and member say which part of the shard");
    }
  }
  return part;
}

std::string result_name(const store::Object& object, const Transform& transform, const Call& call) {
  const std::string what =
      fmt::format("{}/{}\n{}\n{}\n{}\n{}", object.bucket(), object.key(), object.record().etag,
                  object.record().size, call.get_query("transform"), transform.tag());
  return fmt::format("{:016x}{:016x}", hash64(what), hash64(what, 1));
}

void add_result_headers(Call& call, const Asked& asked) {
  net::HeadBuilder& head = call.connection.head();
  head.add("Content-Type", asked.part.what == TransformPart::What::kMember ? "application/octet-stream"
                                                                           : "application/x-tar");
  head.add("ETag", quoted_etag(asked.record.etag));
  head.add("Last-Modified", format_http_date(asked.record.modified_ms));
  head.add("x-millrace-etag", quoted_etag(asked.object->record().etag));
  head.add("x-millrace-transform", call.get_query("transform") + " " + asked.transform->tag());
}

net::Task<Status> send_kept(Call& call, const Asked& asked, KeptResult kept) {
  ParsedRange range;
  if (const auto text = call.request().find("range"); text && range_applies(call.request(), asked.record))
    range = parse_range(*text, kept.size);
  if (range.kind == RangeKind::kUnsatisfiable) {
    Refusal refusal{&kInvalidRange, fmt::format("the result has {} bytes", kept.size), ""};
    refusal.content_range = fmt::format("bytes */{}", kept.size);
    co_return co_await call.refuse(std::move(refusal));
  }
  const bool is_part = range.kind == RangeKind::kPart;
  if (!is_part) range.range = {0, kept.size};
  net::HeadBuilder& head = call.connection.start(is_part ? 206 : 200);
  add_result_headers(call, asked);
  head.add("Accept-Ranges", "bytes");
  head.add("x-millrace-kept", "yes");
  if (is_part)
    head.add("Content-Range", fmt::format("bytes {}-{}/{}", range.range.offset,
                                          range.range.offset + range.range.size - 1, kept.size));
  auto sent = co_await call.connection.send_head(range.range.size);
  if (!sent || call.method() == "HEAD") co_return sent;
  auto body =
      co_await call.connection.send_file(kept.file->descriptor(), range.range.offset, range.range.size);
  if (!body) co_return body;
  co_return co_await call.connection.end_body();
}

// Two sinks as one; the second may fail.
class Fork final : public tar::ByteSink {
 public:
  Fork(tar::ByteSink& first, KeptWriter* second) : first_(first), second_(second) {}
  Status write(std::string_view bytes) override {
    if (second_ != nullptr && !second_->write(bytes)) second_ = nullptr;
    return first_.write(bytes);
  }
  Status finish() override { return {}; }

 private:
  tar::ByteSink& first_;
  KeptWriter* second_;
};

void run_asked(Services& services, const Asked& asked, ResultFlow& flow) {
  std::unique_ptr<KeptWriter> kept;
  if (!asked.name.empty()) kept = services.transforms->keep(asked.name);
  Fork fork(flow, kept.get());
  Status done = run_part(services, {asked.object, *asked.transform, asked.part}, fork);
  const bool is_good = done.has_value();
  flow.end(std::move(done));
  // The client does not wait for the drive.
  if (is_good && kept) kept->commit();
}

net::Task<Result<Asked>> find_asked(Call& call) {
  Asked asked;
  auto part = parse_part(call);
  if (!part) co_return part.take_error();
  asked.part = part.take();
  auto transform = co_await find_transform(call);
  if (!transform) co_return transform.take_error();
  asked.transform = transform.take();
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object) co_return object.take_error();
  asked.object = object.take();
  asked.record = asked.object->record();
  asked.record.etag += "-" + asked.transform->tag();
  if (asked.part.what == TransformPart::What::kWhole && asked.transform->keeps_results())
    asked.name = result_name(*asked.object, *asked.transform, call);
  co_return asked;
}

// The failure that cut an answer short: a reader that comes back for the rest is told.
std::optional<Error> find_cut(const Call& call, const Asked& asked) {
  if (!call.request().find("if-match") && !call.request().find("range")) return std::nullopt;
  return asked.transform->find_failure(call.bucket + "/" + call.key);
}

}  // namespace

net::Task<Status> send_flow(Call& call, std::shared_ptr<ResultFlow> flow, std::function<void()> add_headers) {
  // However this ends, the run does not wait for it.
  const std::shared_ptr<void> end(nullptr, [flow](void*) { flow->cancel(); });
  std::function<void(store::Done<void>)> hold = [flow](store::Done<void> done) {
    flow->when_held(kHeldBeforeHead, [done] { done(Status()); });
  };
  static_cast<void>(co_await call.ask<void>(std::move(hold)));
  if (auto failure = flow->find_failure()) co_return co_await call.refuse(*failure);
  call.connection.start(200);
  add_headers();
  const auto size = flow->whole_size();
  auto sent = co_await call.connection.send_head(size);
  if (!sent) co_return sent;
  while (true) {
    std::function<void(store::Done<std::string>)> next = [flow](store::Done<std::string> done) {
      flow->next(std::move(done));
    };
    auto piece = co_await call.ask<std::string>(std::move(next));
    if (!piece) {
      // The head is out: all that is left is to cut the answer, so that nobody takes it for whole.
      call.services.log.warn("a transform failed", "bucket", call.bucket, "key", call.key, "error",
                             piece.error().message());
      co_return piece.take_error();
    }
    if (piece->empty()) break;
    auto body = co_await call.connection.send_bytes(*piece);
    if (!body) co_return body;
  }
  co_return co_await call.connection.end_body();
}

net::Task<Result<std::shared_ptr<const Transform>>> find_transform(Call& call) {
  Transforms* const transforms = call.services.transforms;
  if (transforms == nullptr) co_return make_error(kNotImplemented, "there are no transforms here");
  const std::string name = call.get_query("transform");
  // An admin may use all of them anywhere; others those that the bucket names.
  if (!call.caller.may(Right::kAdmin, call.bucket)) {
    const auto bucket = call.objects().find_bucket(call.bucket);
    if (!bucket || !store::allows_transform(bucket->settings, name))
      co_return make_error(kAccessDenied, "bucket {} does not allow the transform {}", call.bucket,
                           printable(name, 80))
          .with_hint("an admin allows it: millrace bucket NAME --transforms a,b or '*'");
  }
  auto get = [transforms, name]() { return transforms->get(name); };
  co_return co_await call.blocking(std::move(get));
}

net::Task<Status> get_transformed(Call& call) {
  auto found = co_await find_asked(call);
  if (!found) co_return co_await call.refuse(found.error());
  const auto asked = std::make_shared<Asked>(found.take());
  const Verdict verdict = judge_read(call.request(), asked->record);
  if (verdict != Verdict::kGo) co_return co_await answer_verdict(call, asked->record, verdict);
  if (const auto cut = find_cut(call, *asked)) co_return co_await call.refuse(*cut);
  const uint64_t stored = asked->object->record().size;
  const auto holder = find_redirect(call, *asked->object, {0, stored});
  if (!holder) co_return co_await call.refuse(holder.error());
  if (*holder) co_return co_await redirect(call, **holder);
  if (!asked->name.empty()) {
    auto find = [&call, asked]() -> Result<std::optional<KeptResult>> {
      return call.services.transforms->find_kept(asked->name);
    };
    auto kept = co_await call.blocking(std::move(find));
    if (kept && *kept) co_return co_await send_kept(call, *asked, **kept);
  }
  if (call.method() == "HEAD") {
    call.connection.start(200);
    add_result_headers(call, *asked);
    co_return co_await call.connection.send_head({});
  }
  auto reserved = co_await call.reserve(ResultFlow::kMostHeldBytes);
  if (!reserved) co_return co_await call.refuse(reserved.error());
  const auto flow = std::make_shared<ResultFlow>();
  // The services outlive the call, and the run.
  const bool taken = call.services.transforms->submit(
      [&services = call.services, asked, flow] { run_asked(services, *asked, *flow); },
      [flow] { flow->cancel(); });
  if (!taken) {
    Refusal refusal{&kServiceUnavailable, "too many transforms wait for their turn", "try again soon"};
    co_return co_await call.refuse(std::move(refusal));
  }
  std::function<void()> add_headers = [&call, asked] { add_result_headers(call, *asked); };
  co_return co_await send_flow(call, flow, std::move(add_headers));
}

}  // namespace millrace::gateway
