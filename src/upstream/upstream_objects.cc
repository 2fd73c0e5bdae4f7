// Decides for each call what the store answers and what the upstream.
#include "upstream/upstream_objects.h"

#include <utility>

#include "net/where.h"
#include "store/on_workers.h"
#include "store/reasons.h"
#include "store/waiting.h"
#include "upstream/listing.h"
#include "upstream/recovery.h"
#include "upstream/through_upload.h"

namespace millrace::upstream {

namespace {

constexpr unsigned kStreamThreads = 64;
constexpr unsigned kCallerThreads = 32;
constexpr unsigned kSenderThreads = 32;

Error no_writes(const std::string& bucket, const Remote& remote) {
  return make_error(Code::kDenied, "bucket {} is in front of {} and takes no writes", bucket, remote.name())
      .with_hint(remote.is_store() ? fmt::format("millrace bucket {} --write through", bucket)
                                   : "write to the upstream itself: plain HTTP servers take nothing");
}

Error not_with_upstream(std::string_view what) {
  return make_error(Code::kUnsupported, "{} is not possible in a bucket in front of other storage", what);
}

}  // namespace

UpstreamObjects::UpstreamObjects(store::Objects& objects, const UpstreamOptions& options, Log& log)
    : objects_(objects),
      log_(log),
      address_(options.address),
      lifeline_(std::make_shared<net::Lifeline>()),
      memory_(std::make_shared<FetchMemory>(options.memory)),
      streams_(kStreamThreads),
      callers_(kCallerThreads),
      senders_(kSenderThreads),
      upstreams_(objects, {options.timeout_ms, options.ca_file, lifeline_}),
      lookups_(callers_),
      eviction_({objects, reads_, log},
                {options.evict_above_percent, options.evict_to_percent, options.drives, options.address}),
      fetches_({objects, streams_, memory_, log, [this] { eviction_.wake(); }}) {
  eviction_.start();
}

UpstreamObjects::~UpstreamObjects() {
  stop();
}

void UpstreamObjects::stop() {
  lifeline_->cut();
  fetches_.stop();
  writes_.give_up();
  eviction_.stop();
  streams_.stop();
  callers_.stop();
  senders_.stop();
}

std::shared_ptr<const store::Bucket> UpstreamObjects::find_bucket(std::string_view name) const {
  return objects_.find_bucket(name);
}

std::vector<std::shared_ptr<const store::Bucket>> UpstreamObjects::buckets() const {
  return objects_.buckets();
}

void UpstreamObjects::create_bucket(const std::string& name, store::BucketSettings settings,
                                    store::Done<void> done) {
  if (settings.upstream) {
    if (Status good = upstreams_.check(*settings.upstream); !good) return done(good.take_error());
  }
  objects_.create_bucket(name, std::move(settings), std::move(done));
}

void UpstreamObjects::change_bucket(const std::string& name, store::BucketSettings settings,
                                    store::Done<void> done) {
  const auto known = objects_.find_bucket(name);
  const bool same = known != nullptr && known->settings.upstream == settings.upstream;
  if (same) return objects_.change_bucket(name, std::move(settings), std::move(done));
  store::run_on<void>(
      callers_,
      [this, name, settings]() -> Status {
        MR_TRY(check_change(name, settings));
        return store::wait_for<void>(
            [&](store::Done<void> changed) { objects_.change_bucket(name, settings, std::move(changed)); });
      },
      std::move(done));
}

Status UpstreamObjects::check_change(const std::string& name, const store::BucketSettings& settings) {
  if (!settings.upstream) return {};
  MR_TRY(upstreams_.check(*settings.upstream));
  const auto known = objects_.find_bucket(name);
  if (known == nullptr) return store::no_such_bucket(name);
  const auto& before = known->settings.upstream;
  const bool same_place =
      before && before->url == settings.upstream->url && before->endpoint == settings.upstream->endpoint;
  if (same_place) return {};
  // What came from another place says nothing about this one.
  if (before) return drop_stored(name);
  store::ListOptions first;
  first.limit = 1;
  const store::ListPage page = MR_TRY(store::wait_for<store::ListPage>(
      [&](store::Done<store::ListPage> listed) { objects_.list(name, first, std::move(listed)); }));
  if (page.entries.empty()) return {};
  return make_error(store::kBucketNotEmpty, "bucket {} holds objects that no upstream has", name)
      .with_hint("give an upstream to an empty bucket: millrace mb makes one");
}

Status UpstreamObjects::drop_stored(const std::string& bucket) {
  while (true) {
    const store::ListPage page = MR_TRY(store::wait_for<store::ListPage>(
        [&](store::Done<store::ListPage> listed) { objects_.list(bucket, {}, std::move(listed)); }));
    for (const store::ListEntry& entry : page.entries) {
      MR_TRY(store::wait_for<void>(
          [&](store::Done<void> removed) { objects_.remove(bucket, entry.key, {}, std::move(removed)); }));
    }
    if (!page.truncated) return {};
  }
}

// Its objects are copies: they go with it.
void UpstreamObjects::remove_bucket(const std::string& name, store::Done<void> done) {
  const auto known = objects_.find_bucket(name);
  if (known == nullptr || !known->settings.upstream) return objects_.remove_bucket(name, std::move(done));
  store::run_on<void>(
      callers_,
      [this, name]() -> Status {
        MR_TRY(drop_stored(name));
        return store::wait_for<void>(
            [&](store::Done<void> removed) { objects_.remove_bucket(name, std::move(removed)); });
      },
      std::move(done));
}

bool UpstreamObjects::needs_check(const Upstream& upstream, const store::Object& object) const {
  const auto& seconds = upstream.settings.check_seconds;
  return seconds && !upstream.remote->is_resting() &&
         !lookups_.is_fresh(object.bucket(), object.key(), *seconds);
}

store::ObjectPointer UpstreamObjects::find(std::string_view bucket, std::string_view key) {
  store::ObjectPointer object = objects_.find(bucket, key);
  if (object == nullptr || find_version(object->record()) == nullptr) return object;
  const auto upstream = upstreams_.find(bucket);
  if (!upstream || !*upstream) return object;
  reads_.note(bucket, key);
  return needs_check(**upstream, *object) ? nullptr : object;
}

void UpstreamObjects::get(const std::string& bucket, const std::string& key,
                          store::Done<store::ObjectPointer> done) {
  auto upstream = upstreams_.find(bucket);
  if (!upstream) return done(upstream.take_error());
  if (*upstream == nullptr) return objects_.get(bucket, key, std::move(done));
  reads_.note(bucket, key);
  if (auto coming = fetches_.find(bucket, key)) return done(store::ObjectPointer(std::move(coming)));
  objects_.get(bucket, key,
               [this, upstream = *upstream, name = Name{bucket, key},
                done = std::move(done)](Result<store::ObjectPointer> object) {
                 if (object) return get_stored(upstream, name, object.take(), done);
                 get_missing(upstream, name, object.take_error(), done);
               });
}

void UpstreamObjects::get_missing(const Pointer& upstream, const Name& name, Error why,
                                  store::Done<store::ObjectPointer> done) {
  const Code code = why.code();
  const bool is_lost = code == Code::kUnavailable || code == Code::kIo || code == Code::kCorrupt;
  if (code != Code::kNotFound && !is_lost) return done(std::move(why));
  store::Condition condition;
  condition.only_if_absent = !is_lost;
  lookups_.ask(upstream, name.bucket, name.key, Patience::kUsual,
               [this, remote = upstream->remote, name, condition, done](const Lookups::Found& found) {
                 if (!found) return done(found.error().copy());
                 if (!*found) {
                   return done(make_error(store::kNoSuchObject, "{}/{}: upstream {} has no such object",
                                          name.bucket, name.key, remote->name()));
                 }
                 give_remote(
                     std::make_shared<const RemoteObject>(name.bucket, name.key, remote, **found, condition),
                     done);
               });
}

// An empty object has no bytes that would be asked for: it is stored at once.
void UpstreamObjects::give_remote(std::shared_ptr<const RemoteObject> object,
                                  store::Done<store::ObjectPointer> done) {
  if (object->record().size > 0) return done(store::ObjectPointer(std::move(object)));
  auto fetch = fetches_.join(object, Fetches::Urgency::kRead);
  if (!fetch) return done(fetch.take_error());
  (*fetch)->when_ended([object, done = std::move(done)](Result<store::ObjectPointer> stored) {
    done(stored ? stored.take() : store::ObjectPointer(object));
  });
}

void UpstreamObjects::get_stored(const Pointer& upstream, const Name& name, store::ObjectPointer object,
                                 store::Done<store::ObjectPointer> done) {
  if (find_version(object->record()) == nullptr || !needs_check(*upstream, *object)) return done(object);
  lookups_.ask(upstream, name.bucket, name.key, Patience::kShort,
               [this, upstream, object, done](const Lookups::Found& found) {
                 take_check(upstream, object, found, done);
               });
}

void UpstreamObjects::take_check(const Pointer& upstream, const store::ObjectPointer& object,
                                 const Lookups::Found& found, store::Done<store::ObjectPointer> done) {
  const std::string& bucket = object->bucket();
  const std::string& key = object->key();
  if (!found) {
    upstream->remote->rest();
    return done(object);
  }
  store::Condition is_this;
  is_this.only_if_etag = object->record().etag;
  if (!*found) {
    return objects_.remove(bucket, key, is_this, [remote = upstream->remote, object, done](Status) {
      done(make_error(store::kNoSuchObject, "{}/{}: upstream {} does not have it any more", object->bucket(),
                      object->key(), remote->name()));
    });
  }
  if (shown_etag(**found) == object->record().etag) {
    lookups_.note_fresh(bucket, key);
    return done(object);
  }
  give_remote(std::make_shared<const RemoteObject>(bucket, key, upstream->remote, **found, is_this),
              std::move(done));
}

std::unique_ptr<store::Reader> UpstreamObjects::open(store::ObjectPointer object,
                                                     store::Comparing comparing) {
  if (find_version(object->record()) == nullptr) return objects_.open(std::move(object), comparing);
  const uint64_t size = object->record().size;
  if (auto remote = std::dynamic_pointer_cast<const RemoteObject>(object)) {
    auto fetch = fetches_.join(remote, Fetches::Urgency::kRead);
    if (!fetch) return open_broken_reader(fetch.take_error());
    return open_fetch_reader(fetch.take(), size, objects_);
  }
  auto stored = objects_.open(object, comparing);
  const auto upstream = upstreams_.find(object->bucket());
  if (!upstream || !*upstream) return stored;
  return open_recovering_reader(std::move(object), std::move(stored),
                                {*upstream, objects_, lookups_, fetches_, log_});
}

store::Cached UpstreamObjects::cached(const store::Object& object) const {
  if (find_version(object.record()) == nullptr) return store::Cached::kNoUpstream;
  if (find_remote(object) != nullptr) return store::Cached::kNo;
  // The bucket may have had an upstream, and have none now.
  const auto bucket = objects_.find_bucket(object.bucket());
  return bucket && bucket->settings.upstream ? store::Cached::kYes : store::Cached::kNoUpstream;
}

namespace {

// The answers to one prefetch, which come in any order.
struct Prefetching {
  Mutex mutex;
  std::vector<store::Prefetched> entries MR_GUARDED_BY(mutex);
  size_t left MR_GUARDED_BY(mutex) = 0;
  store::Done<std::vector<store::Prefetched>> done;
};

}  // namespace

void UpstreamObjects::prefetch(const std::string& bucket, std::vector<std::string> keys,
                               store::Done<std::vector<store::Prefetched>> done) {
  auto upstream = upstreams_.find(bucket);
  if (!upstream) return done(upstream.take_error());
  if (*upstream == nullptr) return Objects::prefetch(bucket, std::move(keys), std::move(done));
  if (keys.empty()) return done(std::vector<store::Prefetched>());
  auto all = std::make_shared<Prefetching>();
  {
    const MutexLock lock(all->mutex);
    all->entries.resize(keys.size());
    all->left = keys.size();
    all->done = std::move(done);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    get(bucket, keys[i], [this, all, i, key = keys[i]](Result<store::ObjectPointer> found) {
      store::Prefetched entry = begin_prefetch(key, std::move(found));
      std::vector<store::Prefetched> entries;
      {
        const MutexLock lock(all->mutex);
        all->entries[i] = std::move(entry);
        if (--all->left > 0) return;
        entries = std::move(all->entries);
      }
      all->done(std::move(entries));
    });
  }
}

store::Prefetched UpstreamObjects::begin_prefetch(const std::string& key,
                                                  Result<store::ObjectPointer> found) {
  using State = store::Prefetched::State;
  store::Prefetched entry;
  entry.key = key;
  if (!found) {
    const bool missing = found.error().code() == Code::kNotFound;
    entry.state = missing ? State::kMissing : State::kFailed;
    entry.problem = found.error().message();
    return entry;
  }
  entry.size = (*found)->record().size;
  const auto remote = std::dynamic_pointer_cast<const RemoteObject>(*found);
  if (remote == nullptr) {
    entry.state = State::kStored;
    entry.stored_bytes = entry.size;
    return entry;
  }
  std::optional<std::string> problem = fetches_.take_problem(*remote);
  auto fetch = problem ? Result<std::shared_ptr<Fetch>>(make_error(Code::kUnavailable, "{}", *problem))
                       : fetches_.join(remote, Fetches::Urgency::kAhead);
  entry.state = fetch ? State::kComing : State::kFailed;
  if (fetch) entry.stored_bytes = (*fetch)->bytes_written();
  if (!fetch) entry.problem = fetch.error().message();
  return entry;
}

std::string UpstreamObjects::where(const store::Object& object) const {
  return find_remote(object) != nullptr ? std::string() : objects_.where(object);
}

std::string UpstreamObjects::place(const std::string& bucket, const std::string& key, uint64_t size) const {
  return objects_.place(bucket, key, size);
}

std::string UpstreamObjects::nodes(const store::Object& object) const {
  return find_remote(object) != nullptr ? std::string() : objects_.nodes(object);
}

// In a cluster the first holder of an object fetches it for all who can be sent on.
std::optional<std::string> UpstreamObjects::find_holder(const store::Object& object, uint64_t offset,
                                                        uint64_t size) const {
  if (find_remote(object) == nullptr) return objects_.find_holder(object, offset, size);
  if (address_.empty() || fetches_.find(object.bucket(), object.key()) != nullptr) return std::nullopt;
  const auto place = net::parse_where(objects_.place(object.bucket(), object.key(), object.record().size));
  if (!place || place->holders.empty()) return std::nullopt;
  const std::string& first = place->holders.front();
  if (first.empty() || first == address_) return std::nullopt;
  return first;
}

void UpstreamObjects::shard_index(store::ObjectPointer object, store::Done<Index> done) {
  auto remote = std::dynamic_pointer_cast<const RemoteObject>(object);
  if (remote == nullptr) return objects_.shard_index(std::move(object), std::move(done));
  const bool taken = callers_.submit([this, remote, done] {
    auto index = remote->remote().find_index(remote->key(), remote->head());
    if (index) return done(std::make_shared<const std::string>(std::move(*index)));
    index_when_stored(remote, done);
  });
  if (!taken) done(make_error(Code::kUnavailable, "too many questions to upstreams are waiting"));
}

void UpstreamObjects::index_when_stored(const std::shared_ptr<const RemoteObject>& object,
                                        store::Done<Index> done) {
  auto fetch = fetches_.join(object, Fetches::Urgency::kRead);
  if (!fetch) return done(fetch.take_error());
  (*fetch)->when_ended([this, done = std::move(done)](Result<store::ObjectPointer> stored) {
    if (!stored) return done(stored.take_error());
    objects_.shard_index(stored.take(), done);
  });
}

void UpstreamObjects::list(const std::string& bucket, store::ListOptions options,
                           store::Done<store::ListPage> done) {
  auto upstream = upstreams_.find(bucket);
  if (!upstream) return done(upstream.take_error());
  if (*upstream == nullptr) return objects_.list(bucket, std::move(options), std::move(done));
  store::run_on<store::ListPage>(
      callers_,
      [this, remote = (*upstream)->remote, bucket, options = std::move(options)] {
        return list_upstream(*remote, objects_, bucket, options);
      },
      std::move(done));
}

Result<UpstreamObjects::Pointer> UpstreamObjects::check_writable(const std::string& bucket) {
  auto upstream = MR_TRY(upstreams_.find(bucket));
  if (upstream != nullptr && upstream->settings.writes == store::UpstreamWrites::kNone)
    return no_writes(bucket, *upstream->remote);
  return upstream;
}

Result<std::unique_ptr<store::Writer>> UpstreamObjects::put(store::PutOptions options) {
  auto upstream = MR_TRY(check_writable(options.bucket));
  if (upstream == nullptr) return objects_.put(std::move(options));
  return open_through_writer({objects_, senders_, writes_, fetches_, log_}, std::move(upstream),
                             std::move(options));
}

void UpstreamObjects::remove(const std::string& bucket, const std::string& key, store::Condition condition,
                             store::Done<void> done) {
  auto upstream = check_writable(bucket);
  if (!upstream) return done(upstream.take_error());
  if (*upstream == nullptr) return objects_.remove(bucket, key, std::move(condition), std::move(done));
  if (condition.is_any()) return done(not_with_upstream("removing on a condition"));
  store::run_on<void>(
      senders_,
      [this, upstream = *upstream, name = Name{bucket, key}] { return remove_through(*upstream, name); },
      std::move(done));
}

Status UpstreamObjects::remove_through(const Upstream& upstream, const Name& name) {
  const Writes::Turn turn(writes_, name.bucket, name.key);
  MR_TRY(upstream.remote->remove(name.key));
  fetches_.leave(name.bucket, name.key);
  return store::wait_for<void>(
      [&](store::Done<void> removed) { objects_.remove(name.bucket, name.key, {}, std::move(removed)); });
}

void UpstreamObjects::set_tags(const std::string& bucket, const std::string& key,
                               std::vector<store::NameValue> tags, store::Done<store::ObjectPointer> done) {
  auto upstream = upstreams_.find(bucket);
  if (!upstream) return done(upstream.take_error());
  if (*upstream != nullptr) return done(not_with_upstream("setting tags"));
  objects_.set_tags(bucket, key, std::move(tags), std::move(done));
}

void UpstreamObjects::create_upload(store::PutOptions options, store::Done<std::string> done) {
  auto upstream = check_writable(options.bucket);
  if (!upstream) return done(upstream.take_error());
  objects_.create_upload(std::move(options), std::move(done));
}

Result<std::unique_ptr<store::Writer>> UpstreamObjects::put_part(store::PartOptions options) {
  MR_TRY(check_writable(options.name.bucket));
  return objects_.put_part(std::move(options));
}

void UpstreamObjects::parts(store::UploadName name, store::Done<std::vector<store::PartStatus>> done) {
  objects_.parts(std::move(name), std::move(done));
}

void UpstreamObjects::upload(store::UploadName name, store::Done<store::UploadStatus> done) {
  objects_.upload(std::move(name), std::move(done));
}

void UpstreamObjects::uploads(const std::string& bucket, store::Done<std::vector<store::UploadStatus>> done) {
  objects_.uploads(bucket, std::move(done));
}

void UpstreamObjects::complete_upload(store::Completion completion, store::Done<store::ObjectPointer> done) {
  auto upstream = check_writable(completion.name.bucket);
  if (!upstream) return done(upstream.take_error());
  if (*upstream == nullptr) return objects_.complete_upload(std::move(completion), std::move(done));
  store::run_on<store::ObjectPointer>(
      senders_,
      [this, upstream = *upstream, completion = std::move(completion)] {
        return complete_through({objects_, senders_, writes_, fetches_, log_}, *upstream, completion);
      },
      std::move(done));
}

void UpstreamObjects::abort_upload(store::UploadName name, store::Done<void> done) {
  objects_.abort_upload(std::move(name), std::move(done));
}

}  // namespace millrace::upstream
