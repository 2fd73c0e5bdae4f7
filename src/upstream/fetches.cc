// Begins fetches, in their turn, and tells how they ended.
#include "upstream/fetches.h"

#include "base/clock.h"
#include "store/reasons.h"

namespace millrace::upstream {

namespace {

class RemoteStream final : public Source::Stream {
 public:
  RemoteStream(std::shared_ptr<const RemoteObject> object, std::unique_ptr<net::RangedReader> reader)
      : object_(std::move(object)), reader_(std::move(reader)) {}
  Result<size_t> read_some(std::span<std::byte> into) override {
    auto got = reader_->read_some(into);
    if (!got) return object_->remote().told(got.take_error());
    return got;
  }

 private:
  const std::shared_ptr<const RemoteObject> object_;
  const std::unique_ptr<net::RangedReader> reader_;
};

class RemoteSource final : public Source {
 public:
  explicit RemoteSource(std::shared_ptr<const RemoteObject> object) : object_(std::move(object)) {}

  Result<std::unique_ptr<Stream>> open(uint64_t offset, uint64_t size) override {
    net::ByteRange range{offset, size};
    const bool all = offset == 0 && size == object_->head().size;
    if (all) range.size.reset();
    Remote& remote = object_->remote();
    auto reader = remote.read(object_->key(), range, object_->head());
    if (!reader) return remote.told(reader.take_error());
    const auto now = (*reader)->object_size();
    if (now && *now != object_->head().size) {
      return remote.told(make_error(store::kUpstreamChanged, "{} has {} bytes now, and had {}",
                                    object_->key(), *now, object_->head().size));
    }
    return std::unique_ptr<Stream>(std::make_unique<RemoteStream>(object_, reader.take()));
  }

  Error told(Error why) override { return object_->remote().told(std::move(why)); }

  // With an ETag every answer was compared.
  Status check_unchanged() override {
    const RemoteHead& before = object_->head();
    if (!before.etag.empty()) return {};
    const auto now = MR_TRY(object_->remote().find_head(object_->key()));
    if (now && now->version == before.version && now->size == before.size) return {};
    return object_->remote().told(
        make_error(store::kUpstreamChanged, "{} changed while it was read", object_->key()));
  }

 private:
  const std::shared_ptr<const RemoteObject> object_;
};

FetchPlan make_plan(const std::shared_ptr<const RemoteObject>& object, store::Objects& objects) {
  FetchPlan plan;
  plan.size = object->head().size;
  plan.parts = object->remote().is_ranged(object->head()) ? Parts::kRanges : Parts::kNone;
  plan.checksum = object->head().checksum;
  plan.finish.etag = object->record().etag;
  plan.find_winner = [&objects, object](store::Done<store::ObjectPointer> done) {
    objects.get(object->bucket(), object->key(), std::move(done));
  };
  return plan;
}

}  // namespace

Result<std::shared_ptr<Fetch>> Fetches::join(const std::shared_ptr<const RemoteObject>& object,
                                             Urgency urgency) {
  Entry entry{object, nullptr, 0};
  std::vector<Entry> turns;
  {
    const MutexLock lock(mutex_);
    if (auto known = find_fetch(*object)) return known;
    if (stopped_) return make_error(Code::kCancelled, "the node is stopping");
    std::deque<Entry>& queue = urgency == Urgency::kRead ? reads_ : ahead_;
    if (queue.size() >= kMostWaiting)
      return make_error(Code::kUnavailable, "{} fetches from upstreams wait already", queue.size());
    entry.fetch =
        std::make_shared<Fetch>(Fetch::Surroundings{links_.workers, links_.memory},
                                make_plan(object, links_.objects), std::make_shared<RemoteSource>(object));
    const Name name(object->bucket(), object->key());
    leave_entry(name);  // another version of it
    entries_[name] = entry;
    queue.push_back(entry);
    turns = take_turns();
  }
  for (const Entry& one : turns) begin(one);
  return entry.fetch;
}

std::shared_ptr<Fetch> Fetches::find_fetch(const RemoteObject& object) const {
  const auto is_same = [&](const Entry& entry) {
    return entry.object->record().etag == object.record().etag;
  };
  const auto known = entries_.find({object.bucket(), object.key()});
  if (known != entries_.end()) return is_same(known->second) ? known->second.fetch : nullptr;
  for (const Entry& entry : stored_) {
    if (entry.object->key() == object.key() && entry.object->bucket() == object.bucket() && is_same(entry))
      return entry.fetch;
  }
  return nullptr;
}

void Fetches::forget_ended() {
  std::vector<Entry> forgotten;
  const uint64_t now = coarse_us();
  const MutexLock lock(mutex_);
  while (!stored_.empty() && (stored_.size() > kMostEnded || stored_.front().ended_us + kKeepEndedUs < now)) {
    forgotten.push_back(std::move(stored_.front()));
    stored_.pop_front();
  }
}

void Fetches::note_problem(const RemoteObject& object, const Result<store::ObjectPointer>& outcome) {
  const Name name(object.bucket(), object.key());
  problems_.erase(name);
  if (outcome || problems_.size() >= kMostProblems) return;
  problems_[name] = outcome.error().message();
}

std::optional<std::string> Fetches::take_problem(const RemoteObject& object) {
  const MutexLock lock(mutex_);
  auto found = problems_.extract({object.bucket(), object.key()});
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

std::vector<Fetches::Entry> Fetches::take_turns() {
  std::vector<Entry> turns;
  while (!stopped_ && counts_.running < kMostFetches && !(reads_.empty() && ahead_.empty())) {
    std::deque<Entry>& queue = reads_.empty() ? ahead_ : reads_;
    turns.push_back(std::move(queue.front()));
    queue.pop_front();
    ++counts_.running;
    ++counts_.begun;
  }
  return turns;
}

void Fetches::begin(const Entry& entry) {
  store::PutOptions options;
  options.bucket = entry.object->bucket();
  options.key = entry.object->key();
  options.size = entry.object->head().size;
  options.headers = stored_headers(entry.object->head());
  options.condition = entry.object->condition();
  entry.fetch->start(
      links_.objects.put(std::move(options)),
      [this, entry](Result<store::ObjectPointer> outcome) { take_end(entry, std::move(outcome)); });
}

void Fetches::take_end(const Entry& entry, Result<store::ObjectPointer> outcome) {
  std::vector<Entry> turns;
  {
    const MutexLock lock(mutex_);
    const auto known = entries_.find({entry.object->bucket(), entry.object->key()});
    if (known != entries_.end() && known->second.fetch == entry.fetch) entries_.erase(known);
    --counts_.running;
    ++(outcome ? counts_.stored : counts_.failed);
    note_problem(*entry.object, outcome);
    if (outcome) {
      counts_.bytes += entry.object->head().size;
      stored_.push_back({entry.object, entry.fetch, coarse_us()});
    }
    turns = take_turns();
  }
  if (!outcome && outcome.error().code() != Code::kCancelled) {
    links_.log.warn("an object of an upstream was not stored", "bucket", entry.object->bucket(), "key",
                    entry.object->key(), "error", outcome.error().message());
    if (outcome.error().code() == Code::kNoSpace) links_.on_full();
  }
  forget_ended();
  for (const Entry& one : turns) begin(one);
}

std::shared_ptr<const RemoteObject> Fetches::find(const std::string& bucket, const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto known = entries_.find({bucket, key});
  return known == entries_.end() ? nullptr : known->second.object;
}

void Fetches::leave_entry(const Name& name) {
  std::erase_if(left_, [](const std::weak_ptr<Fetch>& fetch) { return fetch.expired(); });
  const auto known = entries_.find(name);
  if (known == entries_.end()) return;
  left_.push_back(known->second.fetch);
  entries_.erase(known);
}

void Fetches::leave(const std::string& bucket, const std::string& key) {
  const MutexLock lock(mutex_);
  leave_entry({bucket, key});
  std::erase_if(stored_, [&](const Entry& entry) {
    return entry.object->key() == key && entry.object->bucket() == bucket;
  });
}

FetchCounts Fetches::counts() const {
  const MutexLock lock(mutex_);
  FetchCounts counts = counts_;
  counts.waiting = reads_.size() + ahead_.size();
  return counts;
}

void Fetches::stop() {
  std::vector<Entry> entries;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    for (auto& [name, entry] : entries_) entries.push_back(entry);
    for (const auto& fetch : left_) {
      if (auto alive = fetch.lock()) entries.push_back({nullptr, std::move(alive), 0});
    }
    reads_.clear();
    stored_.clear();
    ahead_.clear();
  }
  for (const Entry& entry : entries) entry.fetch->fail(make_error(Code::kCancelled, "the node is stopping"));
}

namespace {

// What outlives the reader: an answer may come when it is gone.
struct Following {
  Following(std::shared_ptr<Fetch> followed, uint64_t object_size, store::Objects& all)
      : fetch(std::move(followed)), size(object_size), objects(all) {}

  // Once it is stored. One thread at a time: the one that waits for bytes.
  store::Reader* open_stored() {
    const store::ObjectPointer object = fetch->stored();
    if (!reader && object && !object->is_inline())
      reader = objects.open(object, store::Comparing::kAsBucketSays);
    return reader.get();
  }

  const std::shared_ptr<Fetch> fetch;
  const uint64_t size;
  store::Objects& objects;
  std::unique_ptr<store::Reader> reader;
};

store::Extent inline_extent(const store::Object& object, uint64_t offset, uint64_t size) {
  store::Extent extent;
  extent.buffer = Bytes(object.inline_bytes());
  extent.offset = offset;
  extent.size = std::min<uint64_t>(size, object.inline_bytes().size() - offset);
  return extent;
}

class FetchReader final : public store::Reader {
 public:
  FetchReader(std::shared_ptr<Fetch> fetch, uint64_t size, store::Objects& objects)
      : following_(std::make_shared<Following>(std::move(fetch), size, objects)) {}

  std::optional<store::Extent> find_ready(uint64_t offset, uint64_t size) override {
    if (auto extent = following_->fetch->find(wanted(offset, size))) return extent;
    store::Reader* const stored = following_->open_stored();
    return stored != nullptr ? stored->find_ready(offset, size) : std::nullopt;
  }

  void prepare(uint64_t offset, uint64_t size, store::Done<store::Extent> done) override {
    following_->fetch->wait(wanted(offset, size),
                            [following = following_, offset, size,
                             done = std::move(done)](Result<std::optional<store::Extent>> arrived) {
                              if (!arrived) return done(arrived.take_error());
                              if (*arrived) return done(std::move(**arrived));
                              if (store::Reader* const stored = following->open_stored())
                                return stored->prepare(offset, size, done);
                              done(inline_extent(*following->fetch->stored(), offset, size));
                            });
  }

 private:
  Fetch::Wanted wanted(uint64_t offset, uint64_t size) {
    if (!whole_) whole_ = offset == 0 && size == following_->size;
    return {offset, size, *whole_};
  }

  const std::shared_ptr<Following> following_;
  std::optional<bool> whole_;  // of the first stretch that was asked for
};

}  // namespace

std::unique_ptr<store::Reader> open_fetch_reader(std::shared_ptr<Fetch> fetch, uint64_t size,
                                                 store::Objects& objects) {
  return std::make_unique<FetchReader>(std::move(fetch), size, objects);
}

}  // namespace millrace::upstream
