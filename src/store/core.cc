// Finding objects over all drives, choosing drives, and the way to the committers.
#include "store/core.h"

#include <algorithm>
#include <future>

#include "base/clock.h"
#include "base/crc.h"
#include "base/fault.h"
#include "base/mutex.h"
#include "base/units.h"
#include "store/commit.h"
#include "store/reasons.h"

namespace millrace::store {

std::shared_ptr<Drive> DriveMap::find(const std::string& path) const {
  for (const auto& drive : drives) {
    if (is_named({drive->path(), drive->id()}, path)) return drive;
  }
  return nullptr;
}

Status DriveMap::check_all_there(const std::string& what) const {
  if (missing.empty()) return {};
  const MissingDrive& first = missing.front();
  return make_error(Code::kUnavailable, "{} while drive {} is missing: {}", what, first.known.path,
                    first.reason)
      .with_hint("attach the drive, or give it up for lost: millrace drives remove " + first.known.path);
}

bool DamageList::add(Damage damage) {
  const MutexLock lock(mutex_);
  const auto is_same = [&](const Damage& known) {
    return known.block == damage.block && known.key == damage.key && known.bucket == damage.bucket &&
           known.drive == damage.drive && known.what == damage.what;
  };
  if (std::ranges::any_of(found_, is_same)) return false;
  ++count_;
  found_.push_back(std::move(damage));
  if (found_.size() > kMaxDamages) found_.pop_front();
  return true;
}

std::vector<Damage> DamageList::found() const {
  const MutexLock lock(mutex_);
  return {found_.begin(), found_.end()};
}

void DamageList::forget(std::string_view bucket, std::string_view key) {
  const MutexLock lock(mutex_);
  std::erase_if(found_, [&](const Damage& known) { return known.key == key && known.bucket == bucket; });
}

void Core::set_map(std::shared_ptr<DriveMap> next) {
  next->since = clock.next();
  std::deque<Change> queued;
  const std::shared_ptr<const DriveMap> drives = map();
  for (const auto& committer : drives->committers) {
    for (Change& change : committer->take_all()) queued.push_back(std::move(change));
  }
  map_.store(next);
  for (Change& change : queued) {
    const uint64_t hash = name_hash(change.bucket, change.key);
    next->committers[rendezvous_first(hash, next->targets)]->push(std::move(change));
  }
}

Lookup Core::look_up(const DriveMap& drives, const std::string& bucket, const std::string& key) const {
  Lookup lookup;
  const std::string encoded = object_key(bucket, key);
  for (const auto& drive : drives.drives) {
    auto value = drive->index().find(Family::kObjects, encoded);
    if (!value) {
      lookup.error = value.error().code() == Code::kIo ? drive->note(value.take_error()) : value.take_error();
      lookup.unread.push_back(drive);
      continue;
    }
    if (!*value) continue;
    auto record = decode_record(**value);
    if (!record) {
      lookup.error = record.take_error().within(fmt::format("drive {}: {}/{}", drive->path(), bucket, key));
      lookup.unread.push_back(drive);
      continue;
    }
    lookup.found.push_back({drive, record.take()});
  }
  std::ranges::sort(lookup.found,
                    [](const Found& a, const Found& b) { return is_newer(a.record, b.record); });
  return lookup;
}

namespace {

// Whether a newer record of its key may lie on a drive that is not seen. A drive whose records were all
// brought up to date with those of the others never holds an old one, but for keys that it marks.
bool may_be_old(const Found& found, const std::string& bucket, const std::string& key) {
  if (found.drive->is_behind()) return true;
  const auto mark =
      found.drive->index().find(Family::kMeta, std::string(kMetaSuperseded) + object_key(bucket, key));
  return !mark || mark->has_value();
}

}  // namespace

Status Core::check_newest(const DriveMap& drives, const Lookup& lookup, const std::string& bucket,
                          const std::string& key) {
  if (drives.missing.empty() && !lookup.error) return {};
  if (!lookup.found.empty() && !may_be_old(lookup.found.front(), bucket, key)) return {};
  if (lookup.error) return lookup.error->copy();
  return drives.check_all_there(lookup.found.empty()
                                    ? fmt::format("{}/{} is not known to be there or not", bucket, key)
                                    : fmt::format("the newest version of {}/{} is not known", bucket, key));
}

Status Core::mark_behind(Drive& drive) {
  // Counted first: whoever compares the drive meanwhile must not take it for compared.
  drive.set_behind();
  return known.set_behind(drive.id()).within("noting that drive " + drive.path() + " misses a commit");
}

Result<std::shared_ptr<const LocalObject>> Core::get_object(const std::string& bucket,
                                                            const std::string& key) {
  const uint64_t hash = ObjectCache::hash(bucket, key);
  if (auto object = cache.find(hash, bucket, key)) return object;
  return load(bucket, key, Keep::kYes);
}

Result<std::shared_ptr<const LocalObject>> Core::load_object(const std::string& bucket,
                                                             const std::string& key) {
  return load(bucket, key, Keep::kNo);
}

Result<std::shared_ptr<const LocalObject>> Core::load(const std::string& bucket, const std::string& key,
                                                      Keep keep) {
  const uint64_t hash = ObjectCache::hash(bucket, key);
  // Each turn means that a commit fell into the few microseconds of reading.
  constexpr int kMostTurns = 1000;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const uint64_t epoch = cache.epoch(hash);
    const std::shared_ptr<const DriveMap> drives = map();
    Lookup lookup = look_up(*drives, bucket, key);
    const Found* current = lookup.current();
    if (current == nullptr) {
      // Drives are looked at one after the other: what was moved meanwhile was passed by.
      const bool may_have_moved = lookup.found.empty() && drives->drives.size() > 1;
      if (may_have_moved &&
          (cache.epoch(hash) != epoch || look_up(*drives, bucket, key).current() != nullptr))
        continue;
    }
    MR_TRY(check_newest(*drives, lookup, bucket, key));
    if (current == nullptr) return no_such_object(bucket, key);
    std::string inline_bytes;
    if (current->record.pieces.empty() && current->record.size > 0) {
      const auto found = current->drive->index().find(Family::kSmall, object_key(bucket, key));
      if (!found && found.error().code() != Code::kCorrupt) return found.error().copy();
      Result<std::string> bytes = make_error(Code::kCorrupt, "its bytes are not in the index");
      if (!found) {
        bytes = found.error().copy();
      } else if (found->has_value()) {
        bytes = decode_small(**found);
      }
      if (!bytes || bytes->size() != current->record.size || crc32c(*bytes) != current->record.crc32c) {
        // Record and bytes are read one after the other: a commit in between looks like damage. The index
        // shows it a moment before the cache's epoch does.
        const Lookup again = look_up(*drives, bucket, key);
        if (again.current() == nullptr || again.current()->drive != current->drive ||
            !(again.current()->record == current->record))
          continue;
        const std::string why = bytes ? "its bytes do not match its record" : bytes.error().message();
        report({bucket, key, current->drive->path(), 0, why});
        return make_error(Code::kCorrupt, "{}/{} on drive {}: {}", bucket, key, current->drive->path(), why);
      }
      inline_bytes = bytes.take();
    }
    auto object = std::make_shared<const LocalObject>(bucket, key, current->record, current->drive,
                                                      std::move(inline_bytes));
    // Its files are pinned from here on; only if nothing was committed meanwhile they are surely still there.
    const bool current_still =
        keep == Keep::kYes ? cache.offer(hash, epoch, object) : cache.epoch(hash) == epoch;
    if (current_still) return std::shared_ptr<const LocalObject>(object);
  }
  return make_error(Code::kUnavailable, "{}/{}: it changes faster than it can be read", bucket, key);
}

Result<std::shared_ptr<Drive>> Core::choose_drive(std::string_view bucket, std::string_view key,
                                                  uint64_t size) const {
  const std::shared_ptr<const DriveMap> drives = map();
  const std::vector<size_t> order = rendezvous_order(name_hash(bucket, key), drives->targets);
  bool any_full = false;
  for (const DriveState wanted : {DriveState::kServing, DriveState::kSlow}) {
    for (const size_t position : order) {
      const auto& drive = drives->drives[position];
      if (drive->state() != wanted) continue;
      if (drive->has_room(size)) return drive;
      any_full = true;
    }
  }
  std::string states;
  for (const auto& drive : drives->drives) {
    const DriveStatus status = drive->status();
    states += fmt::format("{}{}: {}, {} free", states.empty() ? "" : "; ", status.path,
                          drive_state_name(status.state), format_bytes(status.free_bytes));
  }
  if (any_full)
    return make_error(Code::kNoSpace, "no drive with room for {} ({})", format_bytes(size), states);
  return make_error(Code::kUnavailable, "no drive takes objects ({})", states)
      .with_hint("millrace drives add DIR adds one, or takes one that drains into service again");
}

void Core::submit(Change change) {
  {
    const ReadLock lock(topology);
    const std::shared_ptr<const DriveMap> drives = map();
    if (!drives->committers.empty()) {
      change.submitted_us = steady_us();
      const size_t position = rendezvous_first(name_hash(change.bucket, change.key), drives->targets);
      drives->committers[position]->push(std::move(change));
      return;
    }
  }
  change.done(make_error(Code::kUnavailable, "the store has no drive"));
}

Result<std::shared_ptr<const LocalObject>> Core::commit(Change change) {
  // Shared: the one who waits may be gone before set_value has returned.
  auto outcome = std::make_shared<std::promise<Result<std::shared_ptr<const LocalObject>>>>();
  change.done = [outcome](Result<std::shared_ptr<const LocalObject>> result) {
    outcome->set_value(std::move(result));
  };
  auto waiting = outcome->get_future();
  submit(std::move(change));
  return waiting.get();
}

Status Core::save_buckets(Drive& drive) const {
  rocksdb::WriteBatch batch;
  for (const BucketRecord& record : buckets.records()) {
    const std::string encoded = encode_bucket(record);
    const auto there = MR_TRY(drive.index().find(Family::kBuckets, record.bucket.name));
    if (there != encoded) drive.index().put(batch, Family::kBuckets, record.bucket.name, encoded);
  }
  return batch.Count() == 0 ? Status() : drive.index().write(batch, Sync::kYes);
}

Status Core::save_bucket(const BucketRecord& record) {
  Status outcome = make_error(Code::kUnavailable, "no drive took the bucket's record");
  const std::shared_ptr<const DriveMap> drives = map();
  for (const auto& drive : drives->drives) {
    rocksdb::WriteBatch batch;
    drive->index().put(batch, Family::kBuckets, record.bucket.name, encode_bucket(record));
    Status written = drive->index().write(batch, Sync::kYes);
    if (written) {
      outcome = {};
    } else {
      const Error error = drive->note(written.take_error());
      log.warn("a drive did not take a bucket's record", "drive", drive->path(), "why", error.message());
    }
    MR_FAULT("bucket.written");
  }
  if (outcome) buckets.learn(record);
  return outcome;
}

void Core::retire(std::shared_ptr<Drive> drive) {
  const MutexLock lock(retired_mutex_);
  retired_.push_back(std::move(drive));
}

void Core::close_retired() {
  const MutexLock lock(retired_mutex_);
  std::erase_if(retired_, [](const std::shared_ptr<Drive>& drive) {
    if (drive.use_count() > 1) return false;
    drive->close();
    return true;
  });
}

void Core::report(Damage damage) {
  // Forgotten with what was compared of it: the next read looks again.
  if (!damage.key.empty()) cache.forget(ObjectCache::hash(damage.bucket, damage.key));
  if (!damages.add(damage)) return;
  log.warn("found damage", "bucket", damage.bucket, "key", damage.key, "drive", damage.drive, "block",
           damage.block, "what", damage.what);
}

}  // namespace millrace::store
