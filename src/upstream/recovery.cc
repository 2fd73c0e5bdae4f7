// Reads what is stored, and fetches it again where that fails.
#include "upstream/recovery.h"

#include <utility>

namespace millrace::upstream {

namespace {

using store::Extent;

class BrokenReader final : public store::Reader {
 public:
  explicit BrokenReader(Error why) : why_(std::move(why)) {}
  std::optional<Extent> find_ready(uint64_t, uint64_t) override { return std::nullopt; }
  void prepare(uint64_t, uint64_t, store::Done<Extent> done) override { done(why_.copy()); }

 private:
  const Error why_;
};

bool is_lost(Code code) {
  return code == Code::kIo || code == Code::kCorrupt || code == Code::kUnavailable || code == Code::kNotFound;
}

// What outlives the reader. One thread at a time: the one that waits for bytes.
struct Recovery : std::enable_shared_from_this<Recovery> {
  Recovery(store::ObjectPointer lost, std::unique_ptr<store::Reader> stored, RecoveryLinks parts)
      : object(std::move(lost)), reader(std::move(stored)), links(std::move(parts)) {}

  void begin(uint64_t offset, uint64_t size, Error why, store::Done<Extent> done) {
    is_tried = true;
    auto kept = std::make_shared<Error>(std::move(why));
    links.lookups.ask(links.upstream, object->bucket(), object->key(), Patience::kUsual,
                      [self = shared_from_this(), offset, size, kept, done](const Lookups::Found& found) {
                        const bool is_same =
                            found && *found && shown_etag(**found) == self->object->record().etag;
                        if (!is_same) return done(kept->copy());
                        self->go_on(**found, *kept);
                        self->reader->prepare(offset, size, done);
                      });
  }

  void go_on(const RemoteHead& head, const Error& why) {
    links.log.warn("a stored object cannot be read and is fetched again", "bucket", object->bucket(), "key",
                   object->key(), "upstream", links.upstream->remote->name(), "error", why.message());
    store::Condition is_this;
    is_this.only_if_etag = object->record().etag;
    const auto remote = std::make_shared<const RemoteObject>(object->bucket(), object->key(),
                                                             links.upstream->remote, head, is_this);
    auto fetch = links.fetches.join(remote, Fetches::Urgency::kRead);
    reader = fetch ? open_fetch_reader(fetch.take(), head.size, links.objects)
                   : open_broken_reader(fetch.take_error());
  }

  const store::ObjectPointer object;
  std::unique_ptr<store::Reader> reader;
  const RecoveryLinks links;
  bool is_tried = false;
};

class RecoveringReader final : public store::Reader {
 public:
  explicit RecoveringReader(std::shared_ptr<Recovery> recovery) : recovery_(std::move(recovery)) {}

  std::optional<Extent> find_ready(uint64_t offset, uint64_t size) override {
    return recovery_->reader->find_ready(offset, size);
  }
  void prepare(uint64_t offset, uint64_t size, store::Done<Extent> done) override {
    if (recovery_->is_tried) return recovery_->reader->prepare(offset, size, std::move(done));
    recovery_->reader->prepare(
        offset, size, [recovery = recovery_, offset, size, done = std::move(done)](Result<Extent> extent) {
          if (extent || !is_lost(extent.error().code())) return done(std::move(extent));
          recovery->begin(offset, size, extent.take_error(), done);
        });
  }

 private:
  const std::shared_ptr<Recovery> recovery_;
};

}  // namespace

std::unique_ptr<store::Reader> open_recovering_reader(store::ObjectPointer object,
                                                      std::unique_ptr<store::Reader> stored,
                                                      RecoveryLinks links) {
  return std::make_unique<RecoveringReader>(
      std::make_shared<Recovery>(std::move(object), std::move(stored), std::move(links)));
}

std::unique_ptr<store::Reader> open_broken_reader(Error why) {
  return std::make_unique<BrokenReader>(std::move(why));
}

}  // namespace millrace::upstream
