// Reading and building shard indexes.
#include "store/shards.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/fault.h"
#include "store/commit.h"
#include "store/put.h"
#include "store/shard_feed.h"
#include "tar/compress.h"

namespace millrace::store {

namespace {

// The object's bytes in order; they pass the feed on their way.
class ObjectSource final : public tar::ByteSource {
 public:
  ObjectSource(const Object& object, ShardFeed& feed) : object_(object), feed_(feed) {}

  Result<size_t> read_some(std::span<std::byte> into) override {
    if (at_ >= object_.record().size || into.empty()) return size_t{0};
    if (object_.is_inline()) return copy_inline(into);
    const Object::Place place = object_.locate(at_);
    const std::shared_ptr<const File> file = MR_TRY(object_.open_piece(place.piece));
    const uint64_t left = object_.record().pieces[place.piece].size - place.offset;
    const size_t wanted = std::min<uint64_t>(into.size(), left);
    const ssize_t got = ::pread(file->descriptor(), into.data(), wanted, static_cast<off_t>(place.offset));
    if (got < 0) return make_system_error(errno, "reading " + file->name());
    if (got == 0) return make_error(Code::kTruncated, "{}: it ends too early", file->name());
    feed_.add_stored({reinterpret_cast<const char*>(into.data()), static_cast<size_t>(got)});
    at_ += static_cast<uint64_t>(got);
    return static_cast<size_t>(got);
  }
  Result<uint64_t> skip(uint64_t bytes) override { return tar::skip_by_reading(*this, bytes); }

 private:
  size_t copy_inline(std::span<std::byte> into) {
    const std::string_view left = std::string_view(object_.inline_bytes()).substr(at_, into.size());
    std::memcpy(into.data(), left.data(), left.size());
    feed_.add_stored(left);
    at_ += left.size();
    return left.size();
  }

  const Object& object_;
  ShardFeed& feed_;
  uint64_t at_ = 0;
};

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<tar::Compression> recognise(const Object& object) {
  if (object.is_inline()) return tar::recognise_compression(object.inline_bytes());
  const std::shared_ptr<const File> file = MR_TRY(object.open_piece(0));
  char start[tar::kMagicBytes] = {};
  const ssize_t got = ::pread(file->descriptor(), start, sizeof(start), 0);
  if (got < 0) return make_system_error(errno, "reading " + file->name());
  return tar::recognise_compression({start, static_cast<size_t>(got)});
}

constexpr size_t kReadBytes = 1 << 20;

// All bytes of the object through the feed. An error of reading is one; an error of the tar is kept by the
// feed.
Status feed_object(const Object& object, tar::Compression compression, ShardFeed& feed) {
  ObjectSource source(object, feed);
  std::vector<std::byte> buffer(kReadBytes);
  if (compression == tar::Compression::kNone) {
    while (true) {
      const size_t got = MR_TRY(source.read_some(buffer));
      if (got == 0) return {};
      feed.add_tar(text(std::span(buffer).first(got)));
      if (feed.failed()) return {};
    }
  }
  auto plain = MR_TRY(tar::make_decompressor(compression, source, object.key()));
  while (true) {
    const size_t got = MR_TRY(plain->read_some(buffer));
    if (got == 0) break;
    feed.add_tar(text(std::span(buffer).first(got)));
    if (feed.failed()) return {};
  }
  // What the decompressor left behind its end belongs to the shard all the same.
  while (MR_TRY(source.read_some(buffer)) > 0) {
  }
  return {};
}

bool is_of_the_bytes(const Error& error) {
  return error.code() == Code::kCorrupt || error.code() == Code::kTruncated ||
         error.code() == Code::kInvalid || error.code() == Code::kUnsupported ||
         error.code() == Code::kTooLarge;
}

}  // namespace

ShardIndexes::~ShardIndexes() {
  stop();
}

void ShardIndexes::start() {
  thread_ = std::jthread([this] { run(); });
}

void ShardIndexes::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ShardIndexes::wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void ShardIndexes::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || woken_; });
      if (stopped_) return;
      woken_ = false;
    }
    build_pending();
  }
}

void ShardIndexes::build_pending() {
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) {
    std::vector<std::string> keys;
    const auto rows = drive->index().iterate(Family::kMeta, DriveIndex::Scan::kSome);
    for (rows->Seek(slice(kMetaPending)); rows->Valid() && rows->key().starts_with(slice(kMetaPending));
         rows->Next()) {
      keys.emplace_back(view(rows->key()).substr(kMetaPending.size()));
    }
    for (const std::string& encoded : keys) {
      {
        std::lock_guard lock(mutex_);
        if (stopped_) return;
      }
      const auto [bucket, key] = split_object_key(encoded);
      const auto object = core_.get_object(std::string(bucket), std::string(key));
      if (!object || (*object)->record().shard != ShardState::kPending) continue;
      const auto built = get(*object);
      if (!built && !is_of_the_bytes(built.error())) {
        core_.log.warn("cannot index a shard", "bucket", bucket, "key", key, "why", built.error().message());
      }
    }
  }
}

ShardIndexes::Index ShardIndexes::get(const std::shared_ptr<const Object>& object) {
  if (auto index = object->shard_index.load()) return index;
  const Record& record = object->record();
  const auto named = [&](Error error) {
    return std::move(error).within(object->bucket() + "/" + object->key());
  };
  if (record.shard == ShardState::kNone)
    return named(make_error(Code::kNotFound, "it is not a shard by its name"));
  if (record.shard == ShardState::kInvalid) return named(make_error(Code::kInvalid, "it is not a valid tar"));
  Index index =
      object->is_inline() || record.shard == ShardState::kPending ? build_once(object) : read_ready(*object);
  if (!index) return named(index.take_error());
  object->shard_index.store(*index);
  return index;
}

ShardIndexes::Index ShardIndexes::read_ready(const Object& object) const {
  const std::shared_ptr<const File> head = MR_TRY(object.drive()->open_file(object.record().head));
  Trailer trailer = MR_TRY(read_trailer(*head, TrailerParts::kAll));
  if (trailer.shard_index.empty())
    return make_error(Code::kCorrupt, "{}: its shard index is missing", head->name());
  return std::shared_ptr<const std::string>(std::make_shared<std::string>(std::move(trailer.shard_index)));
}

ShardIndexes::Index ShardIndexes::build_once(const std::shared_ptr<const Object>& object) {
  const uint64_t version = object->record().version;
  std::shared_ptr<Build> mine;
  {
    std::unique_lock lock(mutex_);
    const auto found = builds_.find(version);
    if (found != builds_.end()) {
      const std::shared_ptr<Build> theirs = found->second;
      changed_.wait(lock, [&] { return theirs->done; });
      if (theirs->error) return theirs->error->copy();
      return theirs->index;
    }
    mine = std::make_shared<Build>();
    builds_[version] = mine;
  }
  Index index = build(object);
  {
    std::lock_guard lock(mutex_);
    mine->done = true;
    if (index) mine->index = *index;
    if (!index) mine->error = index.error().copy();
    builds_.erase(version);
  }
  changed_.notify_all();
  return index;
}

ShardIndexes::Index ShardIndexes::build(const std::shared_ptr<const Object>& object) {
  ShardFeed feed(object->key());
  const tar::Compression compression = MR_TRY(recognise(*object));
  Status fed = feed_object(*object, compression, feed);
  if (!fed && !is_of_the_bytes(fed.error())) return fed.take_error();
  const uint64_t samples = feed.samples();
  Result<std::string> index = fed ? feed.finish(compression) : Result<std::string>(fed.take_error());
  // The index of a small plain tar is not kept but made whenever it is asked for: that one is ready already.
  Status committed =
      object->record().shard == ShardState::kPending ? commit(*object, index, samples) : Status();
  // Overwritten meanwhile: this index is still that of the object that was asked for.
  if (!committed && committed.error().code() != Code::kCancelled) {
    core_.log.warn("cannot keep a shard index", "key", object->key(), "why", committed.error().message());
  }
  if (!index) return index.take_error();
  return std::shared_ptr<const std::string>(std::make_shared<std::string>(index.take()));
}

Status ShardIndexes::commit(const Object& object, const Result<std::string>& index, uint64_t samples) {
  const auto bucket = core_.buckets.find(object.bucket());
  if (bucket == nullptr) return make_error(Code::kCancelled, "the bucket is gone");
  Change change;
  change.kind = Change::Kind::kRewrite;
  change.bucket = object.bucket();
  change.key = object.key();
  change.durability = bucket->settings.durability;
  change.drive = object.drive();
  change.expected_version = object.record().version;
  change.expected_head = object.record().head;
  Record record = object.record();
  record.shard = index ? ShardState::kReady : ShardState::kInvalid;
  record.shard_samples = index ? samples : 0;
  if (object.is_inline()) {
    change.record = std::move(record);
    change.inline_bytes = object.inline_bytes();
  } else {
    HeadOptions head{object.drive(), object.bucket(), object.key(), index ? *index : "",
                     bucket->settings.durability};
    change.record = MR_TRY(write_head(core_, head, std::move(record)));
    change.new_files = {change.record.head};
  }
  MR_FAULT("shard.head");
  MR_TRY(core_.commit(std::move(change)));
  return {};
}

}  // namespace millrace::store
