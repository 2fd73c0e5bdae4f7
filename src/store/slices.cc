// Slices as objects of a hidden bucket; ledgers as rows of a drive's index.
#include "store/slices.h"

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "base/crc.h"
#include "base/mutex.h"
#include "store/commit.h"
#include "store/core.h"
#include "store/drive.h"
#include "store/local_objects.h"
#include "store/put.h"
#include "store/reasons.h"

namespace millrace::store {

Status Slices::prepare() {
  began_ = core_.clock.next();
  const MutexLock lock(core_.admin);
  if (core_.buckets.find(kSliceBucket) != nullptr) return {};
  BucketRecord record;
  record.bucket = {std::string(kSliceBucket), wall_ms(), core_.clock.next(), {}};
  return core_.save_bucket(record);
}

std::vector<Slices::OwnDrive> Slices::drives() const {
  std::vector<OwnDrive> drives;
  const std::shared_ptr<const DriveMap> map = core_.map();
  for (const auto& drive : map->drives)
    drives.push_back({drive->hash(), drive->id(), drive->weight(), drive->takes_writes(),
                      drive->is_draining(), drive->is_nearly_full(core_.options.nearly_full_percent)});
  return drives;
}

std::vector<std::string> Slices::removed_drives() const {
  return core_.known.state().removed;
}

Result<std::shared_ptr<Drive>> Slices::find(uint64_t drive) const {
  const std::shared_ptr<const DriveMap> map = core_.map();
  for (const auto& one : map->drives) {
    if (one->hash() == drive) return one;
  }
  return make_error(Code::kUnavailable, "drive {:016x} is not here", drive);
}

bool Slices::in_service(uint64_t drive) const {
  const auto found = find(drive);
  return found && ((*found)->takes_writes() || (*found)->is_draining());
}

Result<std::optional<std::string>> Slices::find_ledger(uint64_t drive, std::string_view bucket,
                                                       std::string_view key) {
  const auto found = MR_TRY(find(drive));
  auto value = found->index().find(Family::kLedgers, object_key(bucket, key));
  if (!value) return found->note(value.take_error());
  return value;
}

Status Slices::write_ledger(uint64_t drive, std::string_view bucket, std::string_view key,
                            std::string_view value, Sync sync) {
  const auto found = MR_TRY(find(drive));
  rocksdb::WriteBatch batch;
  if (value.empty()) {
    found->index().remove(batch, Family::kLedgers, object_key(bucket, key));
  } else {
    found->index().put(batch, Family::kLedgers, object_key(bucket, key), value);
  }
  return found->write(batch, sync);
}

Result<Slices::Visited> Slices::visit_ledgers(uint64_t drive, const Range& range, const VisitLedger& visit) {
  const auto found = MR_TRY(find(drive));
  const Rows rows = found->index().iterate(Family::kLedgers, DriveIndex::Scan::kSome);
  const std::string prefix = object_key(range.bucket, range.prefix);
  const std::string after = object_key(range.bucket, range.after);
  const size_t bucket_bytes = object_key(range.bucket, "").size();
  rows->Seek(slice(std::max(prefix, after)));
  if (rows->Valid() && !range.after.empty() && view(rows->key()) == after) rows->Next();
  size_t left = range.limit;
  for (; rows->Valid() && view(rows->key()).starts_with(prefix); rows->Next()) {
    if (left-- == 0) return Visited{false};
    const Visit wish = MR_TRY(visit(view(rows->key()).substr(bucket_bytes), view(rows->value())));
    if (wish == Visit::kStop) return Visited{false};
  }
  if (!rows->status().ok()) return found->note(make_index_error(rows->status(), found->path()));
  return Visited{true};
}

Result<std::vector<Slices::LedgerRow>> Slices::list_ledgers(uint64_t drive, const Range& range) {
  std::vector<LedgerRow> list;
  MR_TRY(visit_ledgers(drive, range, [&](std::string_view key, std::string_view value) {
    list.push_back({range.bucket, std::string(key), std::string(value)});
    return Result<Visit>(Visit::kGoOn);
  }));
  return list;
}

Result<std::vector<Slices::LedgerRow>> Slices::walk_ledgers(uint64_t drive, std::string_view bucket,
                                                            std::string_view key, size_t limit) {
  const auto found = MR_TRY(find(drive));
  std::vector<LedgerRow> list;
  const Rows rows = found->index().iterate(Family::kLedgers, DriveIndex::Scan::kSome);
  const std::string after = object_key(bucket, key);
  rows->Seek(slice(after));
  if (rows->Valid() && view(rows->key()) == after) rows->Next();
  for (; rows->Valid() && list.size() < limit; rows->Next()) {
    const auto [of_bucket, of_key] = split_object_key(view(rows->key()));
    list.push_back({std::string(of_bucket), std::string(of_key), rows->value().ToString()});
  }
  if (!rows->status().ok()) return found->note(make_index_error(rows->status(), found->path()));
  return list;
}

Result<std::unique_ptr<Writer>> Slices::put(uint64_t drive, const std::string& name,
                                            std::optional<uint64_t> size) {
  {
    const MutexLock lock(mutex_);
    doomed_.erase(name);
  }
  PutTarget target;
  target.drive = MR_TRY(find(drive));
  if (!target.drive->has_room(size.value_or(0)))
    return make_error(Code::kNoSpace, "drive {} has no room for a slice", target.drive->path());
  target.options.bucket = kSliceBucket;
  target.options.key = name;
  target.options.size = size;
  return std::unique_ptr<Writer>(std::make_unique<PutWriter>(core_, std::move(target)));
}

Result<ObjectPointer> Slices::get(const std::string& name) {
  return ObjectPointer(MR_TRY(core_.get_object(std::string(kSliceBucket), name)));
}

std::unique_ptr<Reader> Slices::open(ObjectPointer slice_object) {
  return open_local(reader_, std::move(slice_object), Comparing::kAsBucketSays);
}

Result<Slices::Checked> Slices::check(const std::string& name, BlockRange range) {
  const auto object = MR_TRY(core_.load_object(std::string(kSliceBucket), name));
  const Record& record = object->record();
  Checked checked;
  checked.slice_bytes = record.size;
  if (object->is_inline()) {
    if (crc32c(object->inline_bytes()) == record.crc32c) {
      checked.good_bytes = record.size;
    } else {
      checked.bad_blocks.push_back(0);
    }
    return checked;
  }
  // A slice is written in one go.
  const Piece& piece = record.pieces.front();
  const auto count = [&](uint64_t, std::string_view bytes) -> Status {
    checked.good_bytes += bytes.size();
    return {};
  };
  const FileCheck check =
      MR_TRY(check_file(object->drive()->file_path(piece.file), piece.file, count, range));
  if (record.pieces.size() != 1 || check.trailer.data_size != record.size)
    return make_error(Code::kCorrupt, "the file of slice {} has not the size of its record", name);
  checked.blocks = check.trailer.block_crcs.size();
  checked.bad_blocks = check.bad_blocks;
  for (const uint64_t block : checked.bad_blocks)
    checked.good_bytes -= std::min(kBlockBytes, record.size - block * kBlockBytes);
  return checked;
}

std::vector<Slices::Damaged> Slices::damaged() const {
  std::map<std::string, Damaged> by_name;
  const std::shared_ptr<const DriveMap> map = core_.map();
  for (const Damage& damage : core_.damages.found()) {
    if (damage.bucket != kSliceBucket) continue;
    for (const auto& drive : map->drives) {
      if (drive->path() == damage.drive)
        by_name.try_emplace(damage.key, Damaged{drive->hash(), damage.key, damage.block, damage.what});
    }
  }
  std::vector<Damaged> damaged;
  for (auto& [name, one] : by_name) damaged.push_back(std::move(one));
  return damaged;
}

void Slices::forget_damage(const std::string& name) {
  core_.damages.forget(kSliceBucket, name);
}

void Slices::doom(const std::string& name) {
  const MutexLock lock(mutex_);
  doomed_.insert(name);
}

bool Slices::is_doomed(const std::string& name) const {
  const MutexLock lock(mutex_);
  return doomed_.contains(name);
}

Result<Slices::OldSlices> Slices::list_old(uint64_t drive, const std::string& after, size_t rows) {
  const auto found = MR_TRY(find(drive));
  if (!found->index().lost_log().empty())
    return make_error(Code::kCorrupt, "drive {} has lost rows", found->path())
        .with_hint("millrace fsck finds what is missing");
  OldSlices old;
  const std::string prefix = object_key(kSliceBucket, "");
  const std::string begin = object_key(kSliceBucket, after);
  const Rows records = found->index().iterate(Family::kObjects, DriveIndex::Scan::kSome);
  records->Seek(slice(begin));
  if (records->Valid() && !after.empty() && view(records->key()) == begin) records->Next();
  for (; records->Valid() && view(records->key()).starts_with(prefix); records->Next()) {
    if (rows-- == 0) return old;
    const RecordSummary record = MR_TRY(summarize_record(view(records->value())).within(found->path()));
    old.reached = view(records->key()).substr(prefix.size());
    if (record.deleted || record.version.counter >= began_) continue;
    old.slices.push_back({old.reached, std::string(record.etag), record.modified_ms});
  }
  if (!records->status().ok()) return found->note(make_index_error(records->status(), found->path()));
  old.reached.clear();
  return old;
}

Result<bool> Slices::remove_old(const OldSlice& slice) {
  if (is_doomed(slice.name)) return false;
  Change change;
  change.kind = Change::Kind::kRemove;
  change.bucket = kSliceBucket;
  change.key = slice.name;
  change.condition.only_if_etag = slice.etag;
  const auto removed = core_.commit(std::move(change));
  if (removed) return true;
  if (removed.error().is(kConditionFailed) || removed.error().is(kNoSuchObject)) return false;
  return removed.error().copy();
}

void Slices::remove_doomed(const std::string& name) {
  // The lock is held until the removal is in line: a put after it is behind it.
  const MutexLock lock(mutex_);
  if (doomed_.erase(name) == 0) return;
  Change change;
  change.kind = Change::Kind::kRemove;
  change.bucket = kSliceBucket;
  change.key = name;
  change.done = [](Result<std::shared_ptr<const LocalObject>>) {};
  core_.submit(std::move(change));
}

}  // namespace millrace::store
