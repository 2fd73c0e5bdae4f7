// Completes here, sends there.
#include "upstream/through_upload.h"

#include <algorithm>

#include "store/reasons.h"
#include "store/waiting.h"
#include "transfer/stream_upload.h"
#include "upstream/remote_object.h"

namespace millrace::upstream {

namespace {

bool is_sent(std::string_view header) {
  return !header.starts_with("x-amz-checksum-") && !header.starts_with("x-millrace-");
}

Status send(const ThroughLinks& links, Remote& remote, const store::ObjectPointer& object) {
  transfer::PutOptions options;
  for (const store::NameValue& header : object->record().headers) {
    if (is_sent(header.first)) options.headers.push_back(header);
  }
  add_tagging(options.headers, object->record().tags);
  transfer::StreamUpload upload(remote.location(object->key()), std::move(options));
  store::WaitingReader reader(links.objects, object, store::Comparing::kAlways);
  for (uint64_t offset = 0; offset < object->record().size;) {
    const std::string bytes = MR_TRY(reader.read(offset, store::kBlockBytes));
    if (const Status written = upload.write(bytes); !written) return remote.told(written.error().copy());
    offset += bytes.size();
  }
  const Status finished = upload.finish();
  return finished ? Status() : Status(remote.told(finished.error().copy()));
}

}  // namespace

Result<store::ObjectPointer> complete_through(const ThroughLinks& links, const Upstream& upstream,
                                              const store::Completion& completion) {
  const store::UploadName& name = completion.name;
  if (completion.condition.is_any())
    return make_error(Code::kUnsupported, "an upload to a bucket in front of other storage has no condition");
  const Writes::Turn turn(links.writes, name.bucket, name.key);
  const auto object =
      MR_TRY(store::wait_for<store::ObjectPointer>([&](store::Done<store::ObjectPointer> done) {
        links.objects.complete_upload(completion, std::move(done));
      }));
  const Status sent = send(links, *upstream.remote, object);
  store::Condition is_this;
  is_this.only_if_etag = object->record().etag;
  const Status removed = store::wait_for<void>(
      [&](store::Done<void> done) { links.objects.remove(name.bucket, name.key, is_this, std::move(done)); });
  links.fetches.leave(name.bucket, name.key);
  if (!sent) return sent.error().copy();
  if (!removed) return removed.error().copy();
  const auto head = MR_TRY(upstream.remote->find_head(name.key));
  if (!head)
    return make_error(store::kUpstreamChanged, "upstream {}: {} is gone right after it was written",
                      upstream.remote->name(), name.key);
  store::Condition absent;
  absent.only_if_absent = true;
  return store::ObjectPointer(
      std::make_shared<const RemoteObject>(name.bucket, name.key, upstream.remote, *head, absent));
}

}  // namespace millrace::upstream
