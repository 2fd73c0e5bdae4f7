// POST bucket?batch&transform=NAME: samples and members of results, of many shards, as one tar in the order
// asked for. Each entry is a run of its own.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "gateway/batch_request.h"
#include "gateway/missing_entry.h"
#include "gateway/result_flow.h"
#include "gateway/transform_input.h"
#include "gateway/transforms.h"
#include "gateway/upload_body.h"
#include "store/waiting.h"
#include "tar/format.h"

namespace millrace::gateway {

namespace {

constexpr size_t kMaxBody = 16 << 20;

Status check_entries(const Call& call, const BatchRequest& batch) {
  for (const auto& [name, value] : call.query) {
    if (name == "sample" || name == "samples" || name == "member")
      return make_error(kInvalidArgument, "?{} makes no sense in a batch: its entries say it", name);
  }
  for (size_t i = 0; i < batch.entries.size(); ++i) {
    if (batch.entries[i].sample || batch.entries[i].member) continue;
    return make_error(kInvalidArgument, "entry {} of the batch asks for a whole object or a range", i)
        .with_hint("a batch with a transform gives samples and members: a shard has GET ?transform");
  }
  return {};
}

Result<std::string> run_entry(Services& services, const std::string& bucket, const Transform& transform,
                              const BatchEntry& entry) {
  store::ObjectPointer object = services.objects.find(bucket, entry.object);
  if (!object) {
    object = MR_TRY(store::wait_for<store::ObjectPointer>([&](store::Done<store::ObjectPointer> done) {
      services.objects.get(bucket, entry.object, std::move(done));
    }));
  }
  TransformPart part{TransformPart::What::kSamples, {}, ""};
  if (entry.sample) part.samples = {*entry.sample, *entry.sample};
  if (entry.member) part = {TransformPart::What::kMember, {}, *entry.member};
  const std::string blocks = MR_TRY(run_to_blocks(services, {object, transform, part}));
  if (entry.sample) return blocks;
  const std::string_view bytes = MR_TRY(find_in_blocks(blocks, *entry.member));
  std::string made = MR_TRY(
      tar::make_header({.name = entry.name.empty() ? *entry.member : entry.name, .size = bytes.size()}));
  made += bytes;
  made.append(tar::padded(bytes.size()) - bytes.size(), '\0');
  return made;
}

Status run_batch(Services& services, const std::string& bucket, const Transform& transform,
                 const BatchRequest& batch, tar::ByteSink& out) {
  for (size_t i = 0; i < batch.entries.size(); ++i) {
    const BatchEntry& entry = batch.entries[i];
    auto made = run_entry(services, bucket, transform, entry);
    if (!made) {
      const Code code = made.error().code();
      const bool is_missing = code == Code::kNotFound || code == Code::kInvalid;
      if (!is_missing || batch.fail_on_missing)
        return made.take_error().within(fmt::format("entry {} of the batch", i));
      made = report_missing(missing_json(entry, i, made.error()), i);
    }
    if (!made) return made.take_error();
    MR_TRY(out.write(*made));
  }
  const std::string end(2 * tar::kBlock, '\0');
  return out.write(end);
}

}  // namespace

net::Task<Status> get_transformed_batch(Call& call) {
  auto transform = co_await find_transform(call);
  if (!transform) co_return co_await call.refuse(transform.error());
  auto text = co_await read_document(call, kMaxBody);
  if (!text) co_return co_await call.refuse(text.error());
  auto elements = count_elements(*text);
  if (!elements) co_return co_await call.refuse(elements.error());
  constexpr uint64_t kElementBytes = 160;
  auto reserved =
      co_await call.reserve(3 * text->size() + *elements * kElementBytes + ResultFlow::kMostHeldBytes);
  if (!reserved) co_return co_await call.refuse(reserved.error());
  auto parsed = parse_batch_request(*text);
  if (!parsed) co_return co_await call.refuse(parsed.error());
  const auto batch = std::make_shared<BatchRequest>(parsed.take());
  auto good = check_entries(call, *batch);
  if (!good) co_return co_await call.refuse(good.error());
  const auto flow = std::make_shared<ResultFlow>();
  const bool taken = call.services.transforms->submit(
      [&services = call.services, bucket = call.bucket, made = *transform, batch, flow] {
        flow->end(run_batch(services, bucket, *made, *batch, *flow));
      },
      [flow] { flow->cancel(); });
  if (!taken) {
    Refusal refusal{&kServiceUnavailable, "too many transforms wait for their turn", "try again soon"};
    co_return co_await call.refuse(std::move(refusal));
  }
  std::function<void()> add_headers = [&call] {
    call.connection.head().add("Content-Type", "application/x-tar");
  };
  co_return co_await send_flow(call, flow, std::move(add_headers));
}

}  // namespace millrace::gateway
