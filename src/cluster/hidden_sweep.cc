// Which parts and indexes are needed, and the removal of the others.
#include "cluster/hidden_sweep.h"

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "cluster/cluster_calls.h"
#include "cluster/cluster_list.h"
#include "cluster/hidden_bucket.h"
#include "cluster/places.h"
#include "cluster/upload_row.h"

namespace millrace::cluster {

void HiddenSweep::start() {
  thread_.start(kLookEvery, [this] { run(); });
}

void HiddenSweep::look_at(const store::UploadName& name, When when) {
  add({Kind::kParts, name, steady_us() + (when == When::kNow ? 0 : keep_replaced_us_), 0});
  if (when == When::kNow) thread_.wake();
}

void HiddenSweep::look_after(const ObjectName& name, const store::Record& old) {
  if (!old.upload.empty()) look_at({name.bucket, name.key, old.upload}, When::kUnread);
  if (keeps_index(old)) add_index(name, index_key(old));
}

void HiddenSweep::add_index(const ObjectName& shard, const std::string& index) {
  add({Kind::kIndex, {shard.bucket, shard.key, index}, steady_us() + keep_replaced_us_, 0});
}

void HiddenSweep::add(Task task) {
  const MutexLock lock(mutex_);
  if (tasks_.size() < kMostWaiting) tasks_.push_back(std::move(task));
}

std::vector<HiddenSweep::Task> HiddenSweep::take_due() {
  const uint64_t now = steady_us();
  std::vector<Task> due;
  const MutexLock lock(mutex_);
  std::erase_if(tasks_, [&](Task& task) {
    if (task.due_us > now) return false;
    due.push_back(std::move(task));
    return true;
  });
  return due;
}

void HiddenSweep::run() {
  for (Task& task : take_due()) {
    if (!thread_.goes_on()) return;
    const Status swept = sweep(task);
    if (swept || ++task.turns >= kMostTurns) continue;
    task.due_us = steady_us() + kRetryUs;
    add(std::move(task));
  }
  if (walked_us_ != 0 && steady_us() - walked_us_ < kWalkEveryUs) return;
  walked_us_ = steady_us();
  walk();
}

Result<HiddenSweep::Need> HiddenSweep::judge(const store::UploadName& name) {
  Need need;
  // The row first. A completion commits the object before it removes the row. So if the row is gone, the
  // object of a completion is there for the look behind. In the other order a completion could come between
  // the two looks, and its parts would be taken for orphans.
  const ObjectName row_name{uploads_of(name.bucket), name.upload};
  const auto row = MR_TRY(find_now(cluster_, row_name));
  const auto object = MR_TRY(find_now(cluster_, {name.bucket, name.key}));
  const bool is_object = object && object->upload == name.upload;
  if (row && is_object && !is_open(*row)) {
    // Whoever completed it died before it removed the row.
    MR_TRY(remove_now(cluster_, row_name, {}));
  } else if (row) {
    need.all = true;
    return need;
  }
  if (!is_object) return need;
  for (const store::Piece& piece : object->pieces) need.files.insert(piece.file);
  return need;
}

Status HiddenSweep::sweep(const Task& task) {
  if (buckets_.find(task.name.bucket) == nullptr) return {};
  return task.kind == Kind::kParts ? sweep_parts(task.name) : sweep_index(task.name);
}

Result<bool> HiddenSweep::needs_index(const store::UploadName& name) {
  const auto shard = MR_TRY(find_now(cluster_, {name.bucket, name.key}));
  return shard && index_key(*shard) == name.upload;
}

Status HiddenSweep::sweep_index(const store::UploadName& name) {
  if (MR_TRY(needs_index(name))) return {};
  return remove_now(cluster_, {indexes_of(name.bucket), name.upload}, {});
}

Status HiddenSweep::sweep_parts(const store::UploadName& name) {
  const Need need = MR_TRY(judge(name));
  if (need.all) return {};
  const std::vector<ListedRecord> parts =
      MR_TRY(list_records(cluster_, parts_of(name.bucket), name.upload + "/"));
  std::vector<std::string> keys;
  for (const ListedRecord& part : parts) {
    const auto parsed = parse_part_key(part.key);
    if (parsed && !need.files.contains(parsed->file)) keys.push_back(part.key);
  }
  return remove_all(cluster_, parts_of(name.bucket), keys);
}

void HiddenSweep::walk() {
  for (const auto& bucket : buckets_.all()) {
    for (const store::Slices::OwnDrive& drive : cluster_.slices().drives()) {
      if (!thread_.goes_on()) return;
      if (!cluster_.slices().in_service(drive.hash)) continue;
      Status walked = walk_parts(drive.hash, bucket->name);
      if (walked) walked = walk_indexes(drive.hash, bucket->name);
      if (!walked)
        log_.warn("what belongs to the objects of a bucket cannot be looked at", "bucket", bucket->name,
                  "error", walked.error().message());
    }
  }
}

Status HiddenSweep::walk_parts(uint64_t drive, const std::string& bucket) {
  struct Found {
    std::string key;
    std::set<uint64_t> files;
  };
  std::map<std::string, Found> uploads;
  MR_TRY(walk_rows(drive, parts_of(bucket), [&](const std::string& key, const store::Record& record) {
    const auto part = parse_part_key(key);
    if (!part) return;
    Found& found = uploads[part->upload];
    found.key = target_of(record);
    found.files.insert(part->file);
  }));
  for (const auto& [upload, found] : uploads) {
    if (!thread_.goes_on()) return {};
    const store::UploadName name{bucket, found.key, upload};
    const Need need = MR_TRY(judge(name));
    const bool needed = need.all || std::ranges::includes(need.files, found.files);
    // Not at once: somebody may be reading the object that these were parts of.
    if (!needed) look_at(name, When::kUnread);
  }
  return {};
}

Status HiddenSweep::walk_indexes(uint64_t drive, const std::string& bucket) {
  std::vector<store::UploadName> indexes;
  MR_TRY(walk_rows(drive, indexes_of(bucket), [&](const std::string& key, const store::Record& record) {
    indexes.push_back({bucket, target_of(record), key});
  }));
  for (const store::UploadName& index : indexes) {
    if (!thread_.goes_on()) return {};
    if (!MR_TRY(needs_index(index))) add_index({index.bucket, index.key}, index.upload);
  }
  return {};
}

Status HiddenSweep::walk_rows(uint64_t drive, const std::string& hidden, const Visit& visit) {
  const auto maps = cluster_.membership().maps();
  store::Slices::Range range{hidden, "", "", 1000};
  while (thread_.goes_on()) {
    const auto rows = MR_TRY(cluster_.slices().list_ledgers(drive, range));
    for (const store::Slices::LedgerRow& row : rows) {
      if (maps->back()->home(hash_of({hidden, row.key})) != cluster_.membership().self()) continue;
      store::Decoder in(row.value);
      const Ledger ledger = MR_TRY(decode_ledger(in));
      if (ledger.mark && !ledger.mark->record.deleted) visit(row.key, ledger.mark->record);
    }
    if (rows.size() < range.limit) break;
    range.after = rows.back().key;
  }
  return {};
}

}  // namespace millrace::cluster
