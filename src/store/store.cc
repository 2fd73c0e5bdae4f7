// The store's calls, handed to its parts.
#include "store/store.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/mutex.h"
#include "store/commit.h"
#include "store/engine.h"
#include "store/list.h"
#include "store/put.h"
#include "store/reasons.h"

namespace millrace::store {

std::string_view drive_state_name(DriveState state) {
  switch (state) {
    case DriveState::kServing:
      return "serving";
    case DriveState::kSlow:
      return "slow";
    case DriveState::kDraining:
      return "draining";
    case DriveState::kFailed:
      return "failed";
    case DriveState::kMissing:
      return "missing";
  }
  return "unknown";
}

Result<std::unique_ptr<Store>> Store::open(StoreOptions options, Log& log) {
  auto engine = std::make_unique<Engine>(std::move(options), log);
  MR_TRY(engine->start());
  return std::unique_ptr<Store>(std::move(engine));
}

Engine::Engine(StoreOptions options, Log& log)
    : core_(std::move(options), log),
      attach_(core_),
      multipart_(core_),
      reader_(core_),
      shards_(core_),
      scrubber_(core_),
      housekeeper_(core_, multipart_) {}

Engine::~Engine() {
  core_.unpackers.stop();
  shards_.stop();
  scrubber_.stop();
  housekeeper_.stop();
  attach_.close();
}

Status Engine::start() {
  core_.on_pending_shard = [this] { shards_.wake(); };
  MR_TRY(attach_.open_all());
  housekeeper_.start();
  shards_.start();
  scrubber_.start();
  return {};
}

std::shared_ptr<const Bucket> Engine::find_bucket(std::string_view name) const {
  return core_.buckets.find(name);
}

std::vector<std::shared_ptr<const Bucket>> Engine::buckets() const {
  return core_.buckets.all();
}

Status Engine::save_bucket(const BucketRecord& record) {
  Status outcome = make_error(Code::kUnavailable, "no drive took the bucket's record");
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) {
    rocksdb::WriteBatch batch;
    drive->index().put(batch, Family::kBuckets, record.bucket.name, encode_bucket(record));
    Status written = drive->index().write(batch, Sync::kYes);
    if (written) {
      outcome = {};
    } else {
      const Error error = drive->note(written.take_error());
      core_.log.warn("a drive did not take a bucket's record", "drive", drive->path(), "why",
                     error.message());
    }
    MR_FAULT("bucket.written");
  }
  if (outcome) core_.buckets.learn(record);
  return outcome;
}

Status Engine::create_bucket(const std::string& name, BucketSettings settings) {
  MR_TRY(check_bucket_name(name, NameRule::kShort));
  const MutexLock lock(core_.admin);
  if (core_.buckets.find(name) != nullptr) return make_error(kBucketExists, "bucket {} exists", name);
  BucketRecord record;
  record.bucket = {name, wall_ms(), core_.clock.next(), settings};
  return save_bucket(record);
}

Status Engine::change_bucket(const std::string& name, BucketSettings settings) {
  const MutexLock lock(core_.admin);
  const auto bucket = core_.buckets.find(name);
  if (bucket == nullptr) return no_such_bucket(name);
  BucketRecord record;
  record.bucket = {name, bucket->created_ms, core_.clock.next(), settings};
  return save_bucket(record);
}

Status Engine::remove_bucket(const std::string& name) {
  const MutexLock lock(core_.admin);
  MR_TRY(remove_empty_bucket(name));
  // Nobody can add to them any more. Those that stay because a drive refuses or the node stops, the
  // housekeeper takes.
  for (const auto& upload : core_.uploads.in_bucket(name)) {
    const auto aborted = multipart_.abort(name, upload->key, upload->id);
    if (!aborted)
      core_.log.warn("an upload outlived its bucket", "bucket", name, "why", aborted.error().message());
  }
  return {};
}

Status Engine::remove_empty_bucket(const std::string& name) {
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
  return save_bucket(record);
}

std::shared_ptr<const Object> Engine::find_object(std::string_view bucket, std::string_view key) {
  return core_.cache.find(ObjectCache::hash(bucket, key), bucket, key);
}

Result<std::shared_ptr<const Object>> Engine::get_object(const std::string& bucket, const std::string& key) {
  return core_.get_object(bucket, key);
}

std::optional<Extent> Engine::find_ready(const Object& object, uint64_t offset, uint64_t size) {
  return reader_.find_ready(object, offset, size);
}

void Engine::prepare(std::shared_ptr<const Object> object, uint64_t offset, uint64_t size,
                     std::function<void(Result<Extent>)> done) {
  reader_.prepare(std::move(object), offset, size, std::move(done));
}

Result<std::string> Engine::read(const Object& object, uint64_t offset, uint64_t size, Verified verified) {
  return reader_.read(object, offset, size, verified);
}

Result<std::shared_ptr<const std::string>> Engine::shard_index(std::shared_ptr<const Object> object) {
  return shards_.get(object);
}

Result<std::unique_ptr<Writer>> Engine::put(PutOptions options) {
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

void Engine::remove(const std::string& bucket, const std::string& key, Condition condition,
                    std::function<void(Status)> done) {
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
  change.done = [done = std::move(done)](Result<std::shared_ptr<const Object>> result) {
    done(result ? Status() : Status(result.take_error()));
  };
  core_.submit(std::move(change));
}

Result<std::shared_ptr<const Object>> Engine::set_tags(const std::string& bucket, const std::string& key,
                                                       std::vector<NameValue> tags) {
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
      if (object->record().shard == ShardState::kReady) head.shard_index = *MR_TRY(shard_index(object));
      change.record = MR_TRY(write_head(core_, head, std::move(change.record)));
      change.new_files = {change.record.head};
    }
    auto committed = core_.commit(std::move(change));
    if (committed || committed.error().code() != Code::kCancelled) return committed;
  }
  return make_error(Code::kUnavailable, "{}/{}: it changes too fast for its tags to be set", bucket, key);
}

Result<std::string> Engine::create_upload(PutOptions options) {
  return multipart_.create(std::move(options));
}

Result<std::unique_ptr<Writer>> Engine::put_part(PartOptions options) {
  return multipart_.put_part(std::move(options));
}

Result<std::vector<PartStatus>> Engine::parts(const std::string& bucket, const std::string& key,
                                              const std::string& upload) {
  return multipart_.parts(bucket, key, upload);
}

Result<UploadStatus> Engine::upload(const std::string& bucket, const std::string& key,
                                    const std::string& upload) {
  return multipart_.status(bucket, key, upload);
}

Result<std::vector<UploadStatus>> Engine::uploads(const std::string& bucket) {
  if (core_.buckets.find(bucket) == nullptr) return no_such_bucket(bucket);
  MR_TRY(core_.map()->check_all_there(fmt::format("the uploads of bucket {} cannot be listed", bucket)));
  return multipart_.all(bucket);
}

Result<std::shared_ptr<const Object>> Engine::complete_upload(Completion completion) {
  return multipart_.complete(std::move(completion));
}

Status Engine::abort_upload(const std::string& bucket, const std::string& key, const std::string& upload) {
  return multipart_.abort(bucket, key, upload);
}

Result<ListPage> Engine::list(const std::string& bucket, const ListOptions& options) {
  if (core_.buckets.find(bucket) == nullptr) return no_such_bucket(bucket);
  const std::shared_ptr<const DriveMap> map = core_.map();
  // Half a list is worse than none: whoever deletes what is not in it would delete what is only out of sight.
  MR_TRY(map->check_all_there(fmt::format("bucket {} cannot be listed", bucket)));
  return list_objects(*map, bucket, options, core_.moves);
}

Readiness Engine::readiness() const {
  const std::shared_ptr<const DriveMap> map = core_.map();
  Readiness readiness;
  for (const auto& drive : map->drives) readiness.takes_writes |= drive->takes_writes();
  for (const MissingDrive& missing : map->missing) readiness.missing.push_back(missing.known.path);
  return readiness;
}

std::vector<DriveStatus> Engine::drives() {
  return attach_.status();
}

Status Engine::add_drive(const std::string& path) {
  const MutexLock lock(core_.admin);
  // The node's list outlives the directory it was started in.
  MR_TRY(attach_.add(absolute_path(path)));
  housekeeper_.wake();
  shards_.wake();
  return {};
}

Status Engine::drain_drive(const std::string& path) {
  const MutexLock lock(core_.admin);
  MR_TRY(attach_.drain(path));
  housekeeper_.wake();
  return {};
}

Status Engine::remove_drive(const std::string& path) {
  const MutexLock lock(core_.admin);
  return attach_.remove(path);
}

ScrubStatus Engine::scrub_status() {
  return scrubber_.status();
}

void Engine::scrub_now() {
  scrubber_.now();
}

}  // namespace millrace::store
