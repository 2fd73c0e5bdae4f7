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
#include "store/read.h"
#include "store/shard_feed.h"
#include "tar/compress.h"

namespace millrace::store {

namespace {

constexpr size_t kReadBytes = 1 << 20;

// All bytes of the object through the feed. Only an error of reading is one; that of the tar is the feed's.
Status feed_object(Core& core, const LocalObject& object, ShardFeed& feed) {
  if (object.is_inline()) {
    feed.add(object.inline_bytes());
    return {};
  }
  std::vector<char> buffer(kReadBytes);
  for (uint64_t at = 0; at < object.record().size && !feed.failed();) {
    const LocalObject::Place place = object.locate(at);
    const std::shared_ptr<const File> file = MR_TRY(object.open_piece(place.piece));
    const uint64_t left = object.record().pieces[place.piece].size - place.offset;
    const uint64_t wanted = std::min<uint64_t>(buffer.size(), left);
    // An index of damaged bytes would outlive the damage.
    MR_TRY(check_blocks(core, object, {place.piece, place.offset, wanted}, BlocksToCheck::kUnchecked));
    const std::span<char> into(buffer.data(), wanted);
    MR_TRY(file->read_exactly(place.offset, std::as_writable_bytes(into)));
    feed.add({into.data(), into.size()});
    at += wanted;
  }
  return {};
}

bool is_of_the_bytes(const Error& error) {
  return error.code() == Code::kCorrupt || error.code() == Code::kTruncated ||
         error.code() == Code::kInvalid || error.code() == Code::kUnsupported ||
         error.code() == Code::kTooLarge;
}

}  // namespace

void ShardIndexes::start() {
  thread_.start(Background::kWhenWoken, [this] { build_pending(); });
}

void ShardIndexes::build_pending() {
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) {
    std::vector<std::string> keys;
    {
      const auto rows = drive->index().iterate(Family::kMeta, DriveIndex::Scan::kSome);
      for (rows->Seek(slice(kMetaPending)); rows->Valid() && rows->key().starts_with(slice(kMetaPending));
           rows->Next()) {
        keys.emplace_back(view(rows->key()).substr(kMetaPending.size()));
      }
    }
    for (const std::string& encoded : keys) {
      if (!thread_.goes_on()) return;
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

ShardIndexes::Index ShardIndexes::get(const std::shared_ptr<const LocalObject>& object) {
  const Record& record = object->record();
  const auto named = [&](Error error) {
    return std::move(error).within(object->bucket() + "/" + object->key());
  };
  if (record.shard == ShardState::kNone)
    return named(make_error(Code::kNotFound, "it is not a shard by its name"));
  if (record.shard == ShardState::kInvalid) return named(make_error(Code::kInvalid, "it has no index"));
  const bool has_none = object->is_inline() || record.shard == ShardState::kPending;
  Index index = has_none ? builds_.run(record.version, [&] { return build(object); }) : read_ready(*object);
  if (!index) return named(index.take_error());
  return index;
}

ShardIndexes::Index ShardIndexes::read_ready(const LocalObject& object) const {
  const std::shared_ptr<const File> head = MR_TRY(object.drive()->open_file(object.record().head));
  Trailer trailer = MR_TRY(read_trailer(*head, TrailerParts::kAll));
  if (trailer.shard_index.empty())
    return make_error(Code::kCorrupt, "{}: its shard index is missing", head->name());
  return std::shared_ptr<const std::string>(std::make_shared<std::string>(std::move(trailer.shard_index)));
}

ShardIndexes::Index ShardIndexes::build(const std::shared_ptr<const LocalObject>& object) {
  ShardFeed feed(object->key(), ShardFeed::Packing::kRecognise, core_.memory.work);
  MR_TRY(feed_object(core_, *object, feed));
  Result<std::string> index = feed.finish();
  if (feed.starved()) return index.take_error();
  const uint64_t samples = feed.samples();
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

Status ShardIndexes::commit(const LocalObject& object, const Result<std::string>& index, uint64_t samples) {
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
  note_index(record, index, samples);
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
