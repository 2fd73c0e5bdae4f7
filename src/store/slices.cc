// Slices as objects of a hidden bucket; ledgers as rows of a drive's index.
#include "store/slices.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "store/commit.h"
#include "store/core.h"
#include "store/drive.h"
#include "store/local_objects.h"
#include "store/put.h"

namespace millrace::store {

Status Slices::prepare() {
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
    drives.push_back(
        {drive->hash(), drive->id(), drive->weight(), drive->takes_writes(), drive->is_draining()});
  return drives;
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

Result<std::vector<Slices::LedgerRow>> Slices::list_ledgers(uint64_t drive, const Range& range) {
  const auto found = MR_TRY(find(drive));
  std::vector<LedgerRow> list;
  const Rows rows = found->index().iterate(Family::kLedgers, DriveIndex::Scan::kSome);
  const std::string prefix = object_key(range.bucket, range.prefix);
  const std::string after = object_key(range.bucket, range.after);
  const size_t bucket_bytes = object_key(range.bucket, "").size();
  rows->Seek(slice(std::max(prefix, after)));
  if (rows->Valid() && !range.after.empty() && view(rows->key()) == after) rows->Next();
  for (; rows->Valid() && list.size() < range.limit && view(rows->key()).starts_with(prefix); rows->Next())
    list.push_back({std::string(view(rows->key()).substr(bucket_bytes)), rows->value().ToString()});
  if (!rows->status().ok()) return found->note(make_index_error(rows->status(), found->path()));
  return list;
}

Result<std::unique_ptr<Writer>> Slices::put(uint64_t drive, const std::string& name,
                                            std::optional<uint64_t> size) {
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

void Slices::remove(const std::string& name, Done<void> done) {
  Change change;
  change.kind = Change::Kind::kRemove;
  change.bucket = kSliceBucket;
  change.key = name;
  change.done = [done = std::move(done)](Result<std::shared_ptr<const LocalObject>> result) {
    done(result ? Status() : Status(result.take_error()));
  };
  core_.submit(std::move(change));
}

}  // namespace millrace::store
