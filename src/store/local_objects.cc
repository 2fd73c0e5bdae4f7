// Each call on its thread: buckets, lookups, lists, tags, uploads.
#include "store/local_objects.h"

#include <utility>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mutex.h"
#include "store/commit.h"
#include "store/list.h"
#include "store/on_workers.h"
#include "store/put.h"
#include "store/reasons.h"

namespace millrace::store {

namespace {

class LocalReader final : public Reader {
 public:
  LocalReader(ObjectReader& reader, std::shared_ptr<const LocalObject> object, Comparing comparing)
      : reader_(reader), object_(std::move(object)), comparing_(comparing) {}

  std::optional<Extent> find_ready(uint64_t offset, uint64_t size) override {
    if (comparing_ == Comparing::kAlways) return std::nullopt;
    return reader_.find_ready(*object_, offset, size);
  }
  void prepare(uint64_t offset, uint64_t size, Done<Extent> done) override {
    reader_.prepare(object_, {offset, size, comparing_}, std::move(done));
  }

 private:
  ObjectReader& reader_;
  const std::shared_ptr<const LocalObject> object_;
  const Comparing comparing_;
};

// Every object that this store gives away is one of its own.
std::shared_ptr<const LocalObject> own(ObjectPointer object) {
  return std::static_pointer_cast<const LocalObject>(std::move(object));
}

}  // namespace

LocalObjects::LocalObjects(Core& core, Multipart& multipart, ObjectReader& reader, ShardIndexes& shards)
    : core_(core),
      multipart_(multipart),
      reader_(reader),
      shards_(shards),
      short_work_(core.options.workers),
      long_work_(core.options.workers) {}

void LocalObjects::stop() {
  short_work_.stop();
  long_work_.stop();
}

std::shared_ptr<const Bucket> LocalObjects::find_bucket(std::string_view name) const {
  return name == kSliceBucket ? nullptr : core_.buckets.find(name);
}

std::vector<std::shared_ptr<const Bucket>> LocalObjects::buckets() const {
  auto all = core_.buckets.all();
  std::erase_if(all, [](const auto& bucket) { return bucket->name == kSliceBucket; });
  return all;
}

void LocalObjects::create_bucket(const std::string& name, BucketSettings settings, Done<void> done) {
  run_on<void>(
      short_work_, [this, name, settings] { return create_bucket_now(name, settings); }, std::move(done));
}

void LocalObjects::change_bucket(const std::string& name, BucketSettings settings, Done<void> done) {
  run_on<void>(
      short_work_, [this, name, settings] { return change_bucket_now(name, settings); }, std::move(done));
}

void LocalObjects::remove_bucket(const std::string& name, Done<void> done) {
  run_on<void>(short_work_, [this, name] { return remove_bucket_now(name); }, std::move(done));
}

namespace {

Status check_redundancy(const BucketSettings& settings) {
  if (settings.redundancy == Redundancy()) return {};
  return make_error(Code::kUnsupported, "a node alone keeps every object once")
      .with_hint("redundancy needs a cluster: millrace up --registry");
}

}  // namespace

Status LocalObjects::create_bucket_now(const std::string& name, BucketSettings settings) {
  MR_TRY(check_bucket_name(name, NameRule::kShort));
  MR_TRY(check_redundancy(settings));
  const MutexLock lock(core_.admin);
  if (core_.buckets.find(name) != nullptr) return make_error(kBucketExists, "bucket {} exists", name);
  BucketRecord record;
  record.bucket = {name, wall_ms(), core_.clock.next(), settings};
  return core_.save_bucket(record);
}

Status LocalObjects::change_bucket_now(const std::string& name, BucketSettings settings) {
  MR_TRY(check_redundancy(settings));
  const MutexLock lock(core_.admin);
  const auto bucket = core_.buckets.find(name);
  if (bucket == nullptr) return no_such_bucket(name);
  BucketRecord record;
  record.bucket = {name, bucket->created_ms, core_.clock.next(), settings};
  return core_.save_bucket(record);
}

Status LocalObjects::remove_bucket_now(const std::string& name) {
  const MutexLock lock(core_.admin);
  MR_TRY(remove_empty_bucket(name));
  // Nobody can add to them any more. Those that stay because a drive refuses or the node stops, the
  // housekeeper takes.
  for (const auto& upload : core_.uploads.in_bucket(name)) {
    const auto aborted = multipart_.abort({name, upload->key, upload->id});
    if (!aborted)
      core_.log.warn("an upload outlived its bucket", "bucket", name, "why", aborted.error().message());
  }
  return {};
}

Status LocalObjects::remove_empty_bucket(const std::string& name) {
  const auto bucket = core_.buckets.find(name);
  if (bucket == nullptr) return no_such_bucket(name);
  // No commit runs meanwhile, and those that follow find the bucket gone.
  const WriteLock topology(core_.topology);
  const std::shared_ptr<const DriveMap> map = core_.map();
  MR_TRY(map->check_all_there(fmt::format("bucket {} cannot be removed", name)));
  ListOptions first;
  first.limit = 1;
  const ListPage page = MR_TRY(list_objects(*map, name, first, core_.moves));
  if (!page.entries.empty()) return make_error(kBucketNotEmpty, "bucket {} is not empty", name);
  BucketRecord record;
  record.bucket = *bucket;
  record.bucket.version = core_.clock.next();
  record.removed = true;
  return core_.save_bucket(record);
}

ObjectPointer LocalObjects::find(std::string_view bucket, std::string_view key) {
  return core_.cache.find(ObjectCache::hash(bucket, key), bucket, key);
}

void LocalObjects::get(const std::string& bucket, const std::string& key, Done<ObjectPointer> done) {
  run_on<ObjectPointer>(
      short_work_, [this, bucket, key] { return shown(core_.get_object(bucket, key)); }, std::move(done));
}

std::unique_ptr<Reader> LocalObjects::open(ObjectPointer object, Comparing comparing) {
  return open_local(reader_, std::move(object), comparing);
}

std::unique_ptr<Reader> open_local(ObjectReader& reader, ObjectPointer object, Comparing comparing) {
  return std::make_unique<LocalReader>(reader, own(std::move(object)), comparing);
}

void LocalObjects::shard_index(ObjectPointer object, Done<std::shared_ptr<const std::string>> done) {
  run_on<std::shared_ptr<const std::string>>(
      short_work_, [this, object = own(std::move(object))] { return shards_.get(object); }, std::move(done));
}

void LocalObjects::list(const std::string& bucket, ListOptions options, Done<ListPage> done) {
  run_on<ListPage>(
      long_work_, [this, bucket, options = std::move(options)] { return list_now(bucket, options); },
      std::move(done));
}

Result<ListPage> LocalObjects::list_now(const std::string& bucket, const ListOptions& options) {
  if (core_.buckets.find(bucket) == nullptr) return no_such_bucket(bucket);
  const std::shared_ptr<const DriveMap> map = core_.map();
  MR_TRY(map->check_all_there(fmt::format("bucket {} cannot be listed", bucket)));
  return list_objects(*map, bucket, options, core_.moves);
}

Result<std::unique_ptr<Writer>> LocalObjects::put(PutOptions options) {
  MR_TRY(check_key(options.key));
  const auto bucket = core_.buckets.find(options.bucket);
  if (bucket == nullptr) return no_such_bucket(options.bucket);
  if (options.size && *options.size > kMaxObjectBytes) {
    return make_error(Code::kTooLarge, "{} bytes are above the maximum of an object", *options.size);
  }
  PutTarget target;
  target.drive = MR_TRY(core_.choose_drive(options.bucket, options.key, options.size.value_or(0)));
  target.durability = bucket->settings.durability;
  target.options = std::move(options);
  return std::unique_ptr<Writer>(std::make_unique<PutWriter>(core_, std::move(target)));
}

void LocalObjects::remove(const std::string& bucket, const std::string& key, Condition condition,
                          Done<void> done) {
  const auto settings = core_.buckets.find(bucket);
  if (settings == nullptr) {
    done(no_such_bucket(bucket));
    return;
  }
  Change change;
  change.kind = Change::Kind::kRemove;
  change.bucket = bucket;
  change.key = key;
  change.condition = std::move(condition);
  change.durability = settings->settings.durability;
  change.done = [done = std::move(done)](Result<std::shared_ptr<const LocalObject>> result) {
    done(result ? Status() : Status(result.take_error()));
  };
  core_.submit(std::move(change));
}

void LocalObjects::set_tags(const std::string& bucket, const std::string& key, std::vector<NameValue> tags,
                            Done<ObjectPointer> done) {
  run_on<ObjectPointer>(
      short_work_, [this, bucket, key, tags = std::move(tags)] { return set_tags_now(bucket, key, tags); },
      std::move(done));
}

Result<ObjectPointer> LocalObjects::set_tags_now(const std::string& bucket, const std::string& key,
                                                 const std::vector<NameValue>& tags) {
  const auto settings = core_.buckets.find(bucket);
  if (settings == nullptr) return no_such_bucket(bucket);
  // Another writer may come between; each turn sees what it left.
  constexpr int kMostTurns = 16;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const auto object = MR_TRY(core_.get_object(bucket, key));
    Change change;
    change.kind = Change::Kind::kRewrite;
    change.bucket = bucket;
    change.key = key;
    change.durability = settings->settings.durability;
    change.drive = object->drive();
    change.record = object->record();
    change.record.tags = tags;
    change.inline_bytes = object->inline_bytes();
    change.expected_version = object->record().version;
    change.expected_head = object->record().head;
    if (!object->is_inline()) {
      HeadOptions head{object->drive(), bucket, key, "", settings->settings.durability};
      if (object->record().shard == ShardState::kReady) head.shard_index = *MR_TRY(shards_.get(object));
      change.record = MR_TRY(write_head(core_, head, std::move(change.record)));
      change.new_files = {change.record.head};
    }
    auto committed = core_.commit(std::move(change));
    if (committed || committed.error().code() != Code::kCancelled) return shown(std::move(committed));
  }
  return make_error(Code::kUnavailable, "{}/{}: it changes too fast for its tags to be set", bucket, key);
}

void LocalObjects::create_upload(PutOptions options, Done<std::string> done) {
  run_on<std::string>(
      short_work_, [this, options = std::move(options)] { return multipart_.create(options); },
      std::move(done));
}

Result<std::unique_ptr<Writer>> LocalObjects::put_part(PartOptions options) {
  return multipart_.put_part(std::move(options));
}

void LocalObjects::parts(UploadName name, Done<std::vector<PartStatus>> done) {
  run_on<std::vector<PartStatus>>(
      short_work_, [this, name = std::move(name)] { return multipart_.parts(name); }, std::move(done));
}

void LocalObjects::upload(UploadName name, Done<UploadStatus> done) {
  run_on<UploadStatus>(
      short_work_, [this, name = std::move(name)] { return multipart_.status(name); }, std::move(done));
}

void LocalObjects::uploads(const std::string& bucket, Done<std::vector<UploadStatus>> done) {
  run_on<std::vector<UploadStatus>>(
      long_work_, [this, bucket] { return multipart_.all(bucket); }, std::move(done));
}

void LocalObjects::complete_upload(Completion completion, Done<ObjectPointer> done) {
  run_on<ObjectPointer>(
      short_work_,
      [this, completion = std::move(completion)] { return shown(multipart_.complete(completion)); },
      std::move(done));
}

void LocalObjects::abort_upload(UploadName name, Done<void> done) {
  run_on<void>(
      short_work_, [this, name = std::move(name)] { return multipart_.abort(name); }, std::move(done));
}

}  // namespace millrace::store
