// Hands every call on; writes to buckets with a quota come with a grant.
#include "store/quota_objects.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/units.h"
#include "store/reasons.h"

namespace millrace::store {

namespace {

// A part is judged, and takes no room: its upload does, once it is completed.
enum class Counts : uint8_t { kNow, kLater };

struct Limited {
  Quotas& quotas;
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  std::optional<uint64_t> size;
  Counts counts = Counts::kNow;
};

// Judges the write while its bytes come.
class QuotaWriter final : public Writer {
 public:
  QuotaWriter(std::unique_ptr<Writer> writer, Limited limited)
      : writer_(std::move(writer)), limited_(std::move(limited)) {
    if (limited_.size) judge(*limited_.size);
  }

  std::span<std::byte> space() override { return writer_->space(); }
  Status advance(size_t bytes) override {
    if (auto refused = find_refusal()) return std::move(*refused);
    return writer_->advance(bytes);
  }
  void when_space(std::function<void()> ready) override { writer_->when_space(std::move(ready)); }
  Status set_aside() override { return writer_->set_aside(); }
  uint64_t bytes() const override { return writer_->bytes(); }
  uint32_t crc32c() const override { return writer_->crc32c(); }

  void finish(Finish finish, Done<ObjectPointer> done) override {
    if (!limited_.size) judge(writer_->bytes());
    Done<Quotas::GrantPointer> go_on = [this, finish = std::move(finish),
                                        done = std::move(done)](Result<Quotas::GrantPointer> judged) {
      if (!judged) return done(judged.take_error());
      end(judged.take(), finish, done);
    };
    {
      const MutexLock lock(judgement_->mutex);
      if (!judgement_->outcome) {
        // The caller keeps this until `done` was called.
        judgement_->then = std::move(go_on);
        return;
      }
    }
    go_on(take_outcome());
  }

 private:
  // Shared: the answer may come when the writer is gone.
  struct Judgement {
    Mutex mutex;
    std::optional<Result<Quotas::GrantPointer>> outcome MR_GUARDED_BY(mutex);
    Done<Quotas::GrantPointer> then MR_GUARDED_BY(mutex);
  };

  void judge(uint64_t bytes) {
    limited_.quotas.ask(limited_.bucket, limited_.key, bytes,
                        [judgement = judgement_](Result<Quotas::GrantPointer> outcome) {
                          Done<Quotas::GrantPointer> then;
                          {
                            const MutexLock lock(judgement->mutex);
                            then = std::exchange(judgement->then, nullptr);
                            if (!then) judgement->outcome = std::move(outcome);
                          }
                          if (then) then(std::move(outcome));
                        });
  }

  std::optional<Error> find_refusal() const {
    const MutexLock lock(judgement_->mutex);
    if (!judgement_->outcome || *judgement_->outcome) return std::nullopt;
    return judgement_->outcome->error().copy();
  }

  Result<Quotas::GrantPointer> take_outcome() {
    const MutexLock lock(judgement_->mutex);
    return std::move(*judgement_->outcome);
  }

  void end(const Quotas::GrantPointer& grant, const Finish& finish, const Done<ObjectPointer>& done) {
    const Counts counts = limited_.counts;
    writer_->finish(finish, [grant, counts, done](Result<ObjectPointer> written) {
      if (written && counts == Counts::kNow) grant->note_written();
      done(std::move(written));
    });
  }

  const std::unique_ptr<Writer> writer_;
  const Limited limited_;
  const std::shared_ptr<Judgement> judgement_ = std::make_shared<Judgement>();
};

// It could never be there.
Status check_size(const Bucket& bucket, const std::optional<uint64_t>& size) {
  const Quota& quota = bucket.settings.quota;
  if (quota.bytes == 0 || size.value_or(0) <= quota.bytes) return {};
  return make_error(kQuotaExceeded, "{} are more than bucket {} may hold: {}", format_bytes(*size),
                    bucket.name, format_bytes(quota.bytes))
      .with_hint(fmt::format("millrace bucket {} --quota raises it", bucket.name));
}

}  // namespace

std::shared_ptr<const Bucket> QuotaObjects::find_limited(const std::string& bucket) const {
  auto found = objects_.find_bucket(bucket);
  return found != nullptr && found->settings.quota.is_set() ? found : nullptr;
}

Result<std::unique_ptr<Writer>> QuotaObjects::put(PutOptions options) {
  auto bucket = find_limited(options.bucket);
  if (bucket == nullptr) return objects_.put(std::move(options));
  MR_TRY(check_size(*bucket, options.size));
  Limited limited{quotas_, std::move(bucket), options.key, options.size, Counts::kNow};
  auto writer = MR_TRY(objects_.put(std::move(options)));
  return std::unique_ptr<Writer>(std::make_unique<QuotaWriter>(std::move(writer), std::move(limited)));
}

Result<std::unique_ptr<Writer>> QuotaObjects::put_part(PartOptions options) {
  auto bucket = find_limited(options.name.bucket);
  if (bucket == nullptr) return objects_.put_part(std::move(options));
  MR_TRY(check_size(*bucket, options.size));
  Limited limited{quotas_, std::move(bucket), options.name.key, options.size, Counts::kLater};
  auto writer = MR_TRY(objects_.put_part(std::move(options)));
  return std::unique_ptr<Writer>(std::make_unique<QuotaWriter>(std::move(writer), std::move(limited)));
}

void QuotaObjects::complete_upload(Completion completion, Done<ObjectPointer> done) {
  const auto bucket = find_limited(completion.name.bucket);
  if (bucket == nullptr) return objects_.complete_upload(std::move(completion), std::move(done));
  const UploadName name = completion.name;
  objects_.parts(name, [this, bucket, completion = std::move(completion),
                        done = std::move(done)](Result<std::vector<PartStatus>> parts) {
    // Whether it was completed already is for the objects to say; then nothing is added.
    if (!parts && parts.error().is(kNoSuchUpload)) return objects_.complete_upload(completion, done);
    if (!parts) return done(parts.take_error());
    complete_within(bucket, completion, *parts, done);
  });
}

void QuotaObjects::complete_within(const std::shared_ptr<const Bucket>& bucket, const Completion& completion,
                                   const std::vector<PartStatus>& parts, const Done<ObjectPointer>& done) {
  uint64_t bytes = 0;
  for (const CompletePart& wanted : completion.parts) {
    const auto is_it = [&](const PartStatus& part) {
      return part.number == wanted.number && part.etag == wanted.etag;
    };
    // One that is missing fails the completion.
    const auto found = std::ranges::find_if(parts, is_it);
    if (found != parts.end()) bytes += found->size;
  }
  const auto complete = [this, completion, done](Result<Quotas::GrantPointer> judged) {
    if (!judged) return done(judged.take_error());
    objects_.complete_upload(completion, [grant = judged.take(), done](Result<ObjectPointer> made) {
      if (made) grant->note_written();
      done(std::move(made));
    });
  };
  quotas_.ask(bucket, completion.name.key, bytes, complete);
}

void QuotaObjects::remove(const std::string& bucket, const std::string& key, Condition condition,
                          Done<void> done) {
  if (find_limited(bucket) == nullptr)
    return objects_.remove(bucket, key, std::move(condition), std::move(done));
  objects_.remove(bucket, key, std::move(condition), [this, bucket, done = std::move(done)](Status removed) {
    if (removed) quotas_.note_removed(bucket);
    done(std::move(removed));
  });
}

std::shared_ptr<const Bucket> QuotaObjects::find_bucket(std::string_view name) const {
  return objects_.find_bucket(name);
}
std::vector<std::shared_ptr<const Bucket>> QuotaObjects::buckets() const {
  return objects_.buckets();
}
void QuotaObjects::create_bucket(const std::string& name, BucketSettings settings, Done<void> done) {
  objects_.create_bucket(name, settings, std::move(done));
}
void QuotaObjects::change_bucket(const std::string& name, BucketSettings settings, Done<void> done) {
  objects_.change_bucket(name, settings, std::move(done));
}
void QuotaObjects::remove_bucket(const std::string& name, Done<void> done) {
  objects_.remove_bucket(name, std::move(done));
}
ObjectPointer QuotaObjects::find(std::string_view bucket, std::string_view key) {
  return objects_.find(bucket, key);
}
void QuotaObjects::get(const std::string& bucket, const std::string& key, Done<ObjectPointer> done) {
  objects_.get(bucket, key, std::move(done));
}
std::unique_ptr<Reader> QuotaObjects::open(ObjectPointer object, Comparing comparing) {
  return objects_.open(std::move(object), comparing);
}
std::string QuotaObjects::where(const Object& object) const {
  return objects_.where(object);
}
std::string QuotaObjects::place(const std::string& bucket, const std::string& key, uint64_t size) const {
  return objects_.place(bucket, key, size);
}
std::string QuotaObjects::nodes(const Object& object) const {
  return objects_.nodes(object);
}
std::optional<std::string> QuotaObjects::find_holder(const Object& object, uint64_t offset,
                                                     uint64_t size) const {
  return objects_.find_holder(object, offset, size);
}
void QuotaObjects::shard_index(ObjectPointer object, Done<std::shared_ptr<const std::string>> done) {
  objects_.shard_index(std::move(object), std::move(done));
}
void QuotaObjects::list(const std::string& bucket, ListOptions options, Done<ListPage> done) {
  objects_.list(bucket, std::move(options), std::move(done));
}
void QuotaObjects::set_tags(const std::string& bucket, const std::string& key, std::vector<NameValue> tags,
                            Done<ObjectPointer> done) {
  objects_.set_tags(bucket, key, std::move(tags), std::move(done));
}
void QuotaObjects::create_upload(PutOptions options, Done<std::string> done) {
  objects_.create_upload(std::move(options), std::move(done));
}
void QuotaObjects::parts(UploadName name, Done<std::vector<PartStatus>> done) {
  objects_.parts(std::move(name), std::move(done));
}
void QuotaObjects::upload(UploadName name, Done<UploadStatus> done) {
  objects_.upload(std::move(name), std::move(done));
}
void QuotaObjects::uploads(const std::string& bucket, Done<std::vector<UploadStatus>> done) {
  objects_.uploads(bucket, std::move(done));
}
void QuotaObjects::abort_upload(UploadName name, Done<void> done) {
  objects_.abort_upload(std::move(name), std::move(done));
}

}  // namespace millrace::store
