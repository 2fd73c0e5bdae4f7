// Judging, writing and settling a batch of changes.
#include "store/commit_batch.h"

#include <algorithm>
#include <unordered_set>

#include "base/assert.h"
#include "base/clock.h"
#include "base/fault.h"
#include "store/coding.h"
#include "store/put.h"
#include "store/reasons.h"
#include "store/reconcile.h"
#include "store/trailer.h"

namespace millrace::store {

namespace {

bool is_upload_change(const Change& change) {
  return change.kind != Change::Kind::kRemove && change.kind != Change::Kind::kRewrite &&
         change.kind != Change::Kind::kTidy && (change.kind != Change::Kind::kPut || !change.upload.empty());
}

bool is_pending(const Record& record) {
  return record.shard == ShardState::kPending;
}

// Files of `old` that `kept` does not use, where both are on one drive.
std::vector<uint64_t> unused_files(const Record& old, const Record& kept) {
  std::vector<uint64_t> files = files_of(old);
  const std::vector<uint64_t> used_list = files_of(kept);
  const std::unordered_set<uint64_t> used(used_list.begin(), used_list.end());
  std::erase_if(files, [&](uint64_t file) { return used.contains(file); });
  return files;
}

}  // namespace

bool CommitBatch::admits(const Change& change) const {
  const auto found = states_.find(object_key(change.bucket, change.key));
  if (found == states_.end()) return true;
  const KeyState& state = found->second;
  if (state.upload_touched || is_upload_change(change)) return false;
  // One drive and one record: the order inside its batch is enough.
  if (state.lookup.found.size() > 1) return false;
  if (state.lookup.found.empty()) return true;
  if (change.kind == Change::Kind::kRemove || change.kind == Change::Kind::kTidy) return true;
  return state.lookup.found.front().drive == change.drive;
}

void CommitBatch::add(Change change) {
  auto outcome = std::make_unique<Outcome>();
  outcome->change = std::move(change);
  outcome->hash = ObjectCache::hash(outcome->change.bucket, outcome->change.key);
  KeyState& state = state_of(outcome->change);
  if (is_upload_change(outcome->change)) state.upload_touched = true;
  Status planned = plan(*outcome, state);
  if (!planned) outcome->error = planned.take_error();
  outcomes_.push_back(std::move(outcome));
}

CommitBatch::KeyState& CommitBatch::state_of(const Change& change) {
  auto [found, fresh] = states_.try_emplace(object_key(change.bucket, change.key));
  if (fresh) found->second.lookup = core_.look_up(*map_, change.bucket, change.key);
  return found->second;
}

CommitBatch::DriveWrites& CommitBatch::writes_on(const std::shared_ptr<Drive>& drive,
                                                 const Outcome& outcome) {
  auto& writes = writes_[drive.get()];
  if (writes == nullptr) {
    writes = std::make_unique<DriveWrites>();
    writes->drive = drive;
  }
  if (outcome.change.durability == Durability::kFlush) writes->sync = Sync::kYes;
  return *writes;
}

CommitBatch::DriveWrites& CommitBatch::writes_for(const std::shared_ptr<Drive>& drive, Outcome& outcome) {
  DriveWrites& writes = writes_on(drive, outcome);
  if (std::ranges::find(outcome.writes, &writes) == outcome.writes.end()) outcome.writes.push_back(&writes);
  return writes;
}

Status CommitBatch::judge(const Change& change, const Lookup& lookup) const {
  if (!change.condition.is_any()) return {};
  // A record that cannot be read may be the newest.
  if (lookup.error) return lookup.error->copy();
  MR_TRY(Core::check_newest(*map_, lookup, change.bucket, change.key));
  const Found* current = lookup.current();
  return change.condition.judge(change.bucket, change.key, current == nullptr ? nullptr : &current->record);
}

Status CommitBatch::plan(Outcome& outcome, KeyState& state) {
  const Change& change = outcome.change;
  const bool needs_bucket = change.kind != Change::Kind::kRemove && change.kind != Change::Kind::kTidy &&
                            change.kind != Change::Kind::kAbortUpload &&
                            change.kind != Change::Kind::kTidyUpload;
  if (needs_bucket && core_.buckets.find(change.bucket) == nullptr) {
    return no_such_bucket(change.bucket);
  }
  // A writer that began before its drive was taken out: nobody would find the object there.
  if (change.drive != nullptr && std::ranges::find(map_->drives, change.drive) == map_->drives.end()) {
    return make_error(Code::kUnavailable, "drive {} was taken out meanwhile", change.drive->path());
  }
  switch (change.kind) {
    case Change::Kind::kPut:
      return plan_put(outcome, state);
    case Change::Kind::kRewrite:
      return plan_rewrite(outcome, state);
    case Change::Kind::kRemove:
      return plan_remove(outcome, state);
    case Change::Kind::kTidy:
      plan_tidy(outcome, state);
      return {};
    case Change::Kind::kCreateUpload:
      return plan_create_upload(outcome);
    case Change::Kind::kPart:
      return plan_part(outcome);
    case Change::Kind::kAbortUpload:
      return plan_abort(outcome);
    case Change::Kind::kMoveUpload:
      return plan_move_upload(outcome);
    case Change::Kind::kTidyUpload:
      return plan_tidy_upload(outcome);
  }
  return {};
}

Status CommitBatch::plan_put(Outcome& outcome, KeyState& state) {
  Change& change = outcome.change;
  MR_TRY(judge(change, state.lookup));
  MR_TRY(give_version(outcome, state.lookup));
  if (!change.upload.empty()) {
    const auto upload = core_.uploads.find(change.bucket, change.key, change.upload);
    if (upload == nullptr) return no_such_upload(change.bucket, change.key, change.upload);
    if (upload->drive != change.drive) return make_error(Code::kCancelled, "the upload was moved meanwhile");
    MR_TRY(plan_end_of_upload(outcome, *upload, change.record));
  }
  outcome.object = std::make_shared<const LocalObject>(change.bucket, change.key, change.record, change.drive,
                                                       change.inline_bytes);
  return place_record(outcome, state);
}

Status CommitBatch::give_version(Outcome& outcome, const Lookup& lookup) {
  Change& change = outcome.change;
  Record& record = change.record;
  // The number that a file was written with will do, unless another commit of the key came between: one that
  // is seen, or one that may lie on a drive that is not.
  const bool sees_all = !lookup.error && record.version > map_->since;
  const bool is_newest = lookup.found.empty() || record.version > lookup.found.front().record.version;
  if (record.version != 0 && sees_all && is_newest) return {};
  record.version = core_.clock.next();
  if (record.head == 0) return {};
  // The files alone must tell the same order, should the index be lost: the record goes into a new head.
  const uint64_t old_head = record.head;
  HeadOptions head{change.drive, change.bucket, change.key, "", change.durability};
  if (record.shard == ShardState::kReady) {
    const std::shared_ptr<const File> file = MR_TRY(change.drive->open_file(old_head));
    head.shard_index = MR_TRY(read_trailer(*file, TrailerParts::kAll)).shard_index;
  }
  record = MR_TRY(write_head(core_, head, record));
  change.new_files.push_back(record.head);
  if (std::ranges::find(record.pieces, old_head, &Piece::file) == record.pieces.end())
    outcome.dropped.push_back({change.drive, {old_head}});
  return {};
}

Status CommitBatch::note_bypassed(const Lookup& lookup) const {
  for (const auto& drive : lookup.unread) MR_TRY(core_.mark_behind(*drive));
  for (const Found& old : lookup.found) {
    if (old.drive->state() == DriveState::kFailed) MR_TRY(core_.mark_behind(*old.drive));
  }
  return {};
}

Status CommitBatch::plan_rewrite(Outcome& outcome, KeyState& state) {
  Change& change = outcome.change;
  const Found* current = state.lookup.current();
  if (current == nullptr || current->record.version != change.expected_version ||
      current->record.head != change.expected_head) {
    return make_error(Code::kCancelled, "{}/{} was changed meanwhile", change.bucket, change.key);
  }
  outcome.object = std::make_shared<const LocalObject>(change.bucket, change.key, change.record, change.drive,
                                                       change.inline_bytes);
  return place_record(outcome, state);
}

Status CommitBatch::place_record(Outcome& outcome, KeyState& state) {
  Change& change = outcome.change;
  MR_TRY(note_bypassed(state.lookup));
  outcome.changes_object = true;
  DriveWrites& writes = writes_for(change.drive, outcome);
  const DriveIndex& index = change.drive->index();
  const std::string key = object_key(change.bucket, change.key);
  for (const Found& old : state.lookup.found) {
    if (old.drive != change.drive) {
      // Marked before the new record is written and removed after: should the drive with the new one be gone
      // in between, the old one is not taken for the truth.
      if (!old.drive->is_behind())
        old.drive->index().put(writes_on(old.drive, outcome).steps[kBefore], Family::kMeta,
                               std::string(kMetaSuperseded) + key, "1");
      remove_record(outcome, old, kAfter);
      continue;
    }
    const std::vector<uint64_t> unused = unused_files(old.record, change.record);
    for (const uint64_t file : unused) index.remove(writes.steps[kItself], Family::kFiles, file_key(file));
    if (old.record.deleted)
      index.remove(writes.steps[kItself], Family::kMeta, std::string(kMetaTombstone) + key);
    if (is_pending(old.record))
      index.remove(writes.steps[kItself], Family::kMeta, std::string(kMetaPending) + key);
    if (map_->drives.size() > 1)
      index.remove(writes.steps[kItself], Family::kMeta, std::string(kMetaSuperseded) + key);
    if (old.record.pieces.empty() && (!change.record.pieces.empty() || change.record.size == 0)) {
      index.remove(writes.steps[kItself], Family::kSmall, key);
    }
    outcome.dropped.push_back({old.drive, unused});
  }
  index.put(writes.steps[kItself], Family::kObjects, key, encode_record(change.record));
  if (change.record.pieces.empty() && change.record.size > 0) {
    index.put(writes.steps[kItself], Family::kSmall, key, encode_small(change.inline_bytes));
  }
  if (is_pending(change.record))
    index.put(writes.steps[kItself], Family::kMeta, std::string(kMetaPending) + key, "1");
  const std::string owner = encode_owner({change.bucket, change.key, "", 0});
  for (const uint64_t file : files_of(change.record)) {
    index.put(writes.steps[kItself], Family::kFiles, file_key(file), owner);
  }
  state.lookup.found = {Found{change.drive, change.record}};
  return {};
}

void CommitBatch::remove_record(Outcome& outcome, const Found& old, Step step) {
  DriveWrites& writes = writes_on(old.drive, outcome);
  const DriveIndex& index = old.drive->index();
  const std::string key = object_key(outcome.change.bucket, outcome.change.key);
  index.remove(writes.steps[step], Family::kObjects, key);
  if (old.record.pieces.empty()) index.remove(writes.steps[step], Family::kSmall, key);
  if (old.record.deleted) index.remove(writes.steps[step], Family::kMeta, std::string(kMetaTombstone) + key);
  if (is_pending(old.record))
    index.remove(writes.steps[step], Family::kMeta, std::string(kMetaPending) + key);
  if (map_->drives.size() > 1)
    index.remove(writes.steps[step], Family::kMeta, std::string(kMetaSuperseded) + key);
  const std::vector<uint64_t> files = files_of(old.record);
  for (const uint64_t file : files) index.remove(writes.steps[step], Family::kFiles, file_key(file));
  outcome.dropped.push_back({old.drive, files, step});
}

std::shared_ptr<Drive> CommitBatch::tombstone_drive(const Lookup& lookup) const {
  if (is_complete(*map_)) return nullptr;
  if (!lookup.found.empty() && lookup.found.front().drive->state() != DriveState::kFailed) {
    return lookup.found.front().drive;
  }
  for (const auto& drive : map_->drives) {
    if (drive->takes_writes()) return drive;
  }
  return nullptr;
}

Status CommitBatch::plan_remove(Outcome& outcome, KeyState& state) {
  const Change& change = outcome.change;
  MR_TRY(judge(change, state.lookup));
  const std::shared_ptr<Drive> tomb = tombstone_drive(state.lookup);
  if (state.lookup.found.empty() && tomb == nullptr && state.lookup.unread.empty()) {
    if (is_complete(*map_)) return {};
    // What a drive that now fails was given last may still turn up.
    return make_error(Code::kUnavailable, "no drive can note that {}/{} is deleted", change.bucket,
                      change.key);
  }
  MR_TRY(note_bypassed(state.lookup));
  outcome.changes_object = true;
  const std::string key = object_key(change.bucket, change.key);
  // The newest last: while it is there, no older one comes back.
  for (auto old = state.lookup.found.rbegin(); old != state.lookup.found.rend(); ++old) {
    const bool newest = old + 1 == state.lookup.found.rend();
    if (old->drive->state() == DriveState::kFailed && tomb != nullptr && tomb != old->drive) continue;
    remove_record(outcome, *old, newest ? kItself : kBefore);
    writes_for(old->drive, outcome);
  }
  state.lookup.found.clear();
  // A damaged record goes, too; fsck finds what it named.
  for (const auto& drive : state.lookup.unread) {
    if (drive->state() == DriveState::kFailed) continue;
    drive->index().remove(writes_for(drive, outcome).steps[kItself], Family::kObjects, key);
    drive->need_sweep();
  }
  if (tomb == nullptr) return {};
  Record record;
  record.version = core_.clock.next();
  record.modified_ms = wall_ms();
  record.deleted = true;
  DriveWrites& writes = writes_for(tomb, outcome);
  tomb->index().put(writes.steps[kItself], Family::kObjects, key, encode_record(record));
  tomb->index().put(writes.steps[kItself], Family::kMeta, std::string(kMetaTombstone) + key, "1");
  state.lookup.found.push_back({tomb, record});
  return {};
}

void CommitBatch::plan_tidy(Outcome& outcome, KeyState& state) {
  std::vector<Found>& found = state.lookup.found;
  while (found.size() > 1) {
    remove_record(outcome, found.back(), kBefore);
    writes_for(found.back().drive, outcome);
    found.pop_back();
  }
  // A record that cannot be read may be older than a tombstone, or newer than what is marked.
  if (state.lookup.error || !is_complete(*map_)) return;
  if (!found.empty()) {
    // All others were asked: this record is the newest.
    const std::string mark =
        std::string(kMetaSuperseded) + object_key(outcome.change.bucket, outcome.change.key);
    found.front().drive->index().remove(writes_for(found.front().drive, outcome).steps[kItself],
                                        Family::kMeta, mark);
  }
  if (found.empty() || !found.front().record.deleted) return;
  remove_record(outcome, found.front(), kItself);
  writes_for(found.front().drive, outcome);
  found.clear();
}

Status CommitBatch::plan_create_upload(Outcome& outcome) {
  const Upload& upload = *outcome.change.new_upload;
  DriveWrites& writes = writes_for(upload.drive, outcome);
  upload.drive->index().put(writes.steps[kItself], Family::kUploads,
                            upload_key(upload.bucket, upload.key, upload.id), encode_upload(upload));
  return {};
}

Status CommitBatch::plan_part(Outcome& outcome) {
  const Change& change = outcome.change;
  const auto upload = core_.uploads.find(change.bucket, change.key, change.upload);
  if (upload == nullptr) return no_such_upload(change.bucket, change.key, change.upload);
  if (upload->drive != change.drive) {
    return make_error(Code::kUnavailable, "upload {} was moved to another drive: send the part again",
                      change.upload);
  }
  const DriveIndex& index = change.drive->index();
  const std::string row = part_key(change.bucket, change.key, change.upload, change.part);
  const auto before = MR_TRY(index.find(Family::kUploads, row));
  DriveWrites& writes = writes_for(change.drive, outcome);
  if (before) {
    const Record old = MR_TRY(decode_record(*before));
    for (const uint64_t file : files_of(old))
      index.remove(writes.steps[kItself], Family::kFiles, file_key(file));
    outcome.dropped.push_back({change.drive, files_of(old)});
  }
  index.put(writes.steps[kItself], Family::kUploads, row, encode_record(change.record));
  const std::string owner = encode_owner({change.bucket, change.key, change.upload, change.part});
  for (const uint64_t file : files_of(change.record)) {
    index.put(writes.steps[kItself], Family::kFiles, file_key(file), owner);
  }
  outcome.object =
      std::make_shared<const LocalObject>(change.bucket, change.key, change.record, change.drive, "");
  return {};
}

Status CommitBatch::plan_abort(Outcome& outcome) {
  const Change& change = outcome.change;
  const auto upload = core_.uploads.find(change.bucket, change.key, change.upload);
  if (upload == nullptr) return no_such_upload(change.bucket, change.key, change.upload);
  return plan_end_of_upload(outcome, *upload, Record());
}

void CommitBatch::remove_upload(Outcome& outcome, const std::shared_ptr<Drive>& drive, const UploadRows& rows,
                                Step step) {
  const DriveIndex& index = drive->index();
  DriveWrites& writes = writes_on(drive, outcome);
  for (const std::string& key : rows.keys) index.remove(writes.steps[step], Family::kUploads, key);
  std::vector<uint64_t> files;
  for (const UploadPart& part : rows.parts) {
    for (const uint64_t file : files_of(part.record)) files.push_back(file);
  }
  for (const uint64_t file : files) index.remove(writes.steps[step], Family::kFiles, file_key(file));
  outcome.dropped.push_back({drive, std::move(files), step});
}

Status CommitBatch::plan_end_of_upload(Outcome& outcome, const Upload& upload, const Record& kept) {
  std::unordered_set<uint64_t> used;
  for (const Piece& piece : kept.pieces) used.insert(piece.file);
  UploadRows rows = MR_TRY(read_upload(*upload.drive, upload));
  std::erase_if(rows.parts, [&](const UploadPart& part) {
    return std::ranges::count_if(files_of(part.record), [&](uint64_t file) { return used.erase(file) > 0; }) >
           0;
  });
  if (!used.empty()) {
    return make_error(kNoSuchPart, "a part was replaced while the upload was being completed");
  }
  writes_for(upload.drive, outcome);
  remove_upload(outcome, upload.drive, rows, kItself);
  // A move that was cut short may have left it on another drive, too.
  for (const auto& drive : map_->drives) {
    if (drive == upload.drive) continue;
    const auto left = drive->index().find(Family::kUploads, rows.keys.back());
    if (left && *left) remove_upload(outcome, drive, MR_TRY(read_upload(*drive, upload)), kAfter);
  }
  return {};
}

Status CommitBatch::plan_move_upload(Outcome& outcome) {
  const Change& change = outcome.change;
  const Upload& moved = *change.new_upload;
  const auto upload = core_.uploads.find(change.bucket, change.key, change.upload);
  if (upload == nullptr) return make_error(Code::kCancelled, "the upload ended meanwhile");
  // Its old rows would be its new ones, and go.
  if (upload->drive == change.drive) return make_error(Code::kCancelled, "the upload is there already");
  const UploadRows rows = MR_TRY(read_upload(*upload->drive, *upload));
  if (!std::ranges::equal(rows.parts, change.moved_parts, {}, &UploadPart::record, &MovedPart::before)) {
    return make_error(Code::kCancelled, "the upload got parts meanwhile");
  }
  const DriveIndex& index = change.drive->index();
  rocksdb::WriteBatch& batch = writes_for(change.drive, outcome).steps[kItself];
  index.put(batch, Family::kUploads, rows.keys.back(), encode_upload(moved));
  for (const MovedPart& part : change.moved_parts) {
    index.put(batch, Family::kUploads, part_key(moved.bucket, moved.key, moved.id, part.number),
              encode_record(part.after));
    const std::string owner = encode_owner({moved.bucket, moved.key, moved.id, part.number});
    for (const uint64_t file : files_of(part.after)) index.put(batch, Family::kFiles, file_key(file), owner);
  }
  remove_upload(outcome, upload->drive, rows, kAfter);
  return {};
}

Status CommitBatch::plan_tidy_upload(Outcome& outcome) {
  const Change& change = outcome.change;
  const auto upload = core_.uploads.find(change.bucket, change.key, change.upload);
  if (upload != nullptr && upload->drive == change.drive)
    return make_error(Code::kCancelled, "the upload is here");
  Upload left;
  left.bucket = change.bucket;
  left.key = change.key;
  left.id = change.upload;
  const UploadRows rows = MR_TRY(read_upload(*change.drive, left));
  writes_for(change.drive, outcome);
  remove_upload(outcome, change.drive, rows, kItself);
  return {};
}

bool CommitBatch::write_step(Step step) {
  taken_ = step;
  for (const auto& [drive, writes] : writes_) {
    rocksdb::WriteBatch& batch = writes->steps[step];
    if (batch.Count() == 0 || writes->error) continue;
    if (step == kItself) {
      Encoder clock;
      clock.u64(core_.clock.last());
      drive->index().put(batch, Family::kMeta, kMetaClock, clock.bytes());
    }
    const Sync sync = broken("no-fsync") ? Sync::kNo : writes->sync;
    Status written = drive->write(batch, sync);
    if (!written) {
      writes->error = drive->note(written.take_error().within("drive " + drive->path()));
      refusal_ = writes->error->copy();
    }
    MR_FAULT("commit.written");
  }
  return !refusal_;
}

void CommitBatch::write() {
  for (const auto& outcome : outcomes_) {
    if (outcome->changes_object && !outcome->error) core_.cache.begin_change(outcome->hash);
  }
  MR_FAULT("commit.judged");
  if (write_step(kBefore) && write_step(kItself)) {
    // Known before the old rows go: whoever misses them looks again.
    for (const auto& outcome : outcomes_) {
      if (outcome->change.kind == Change::Kind::kMoveUpload && !outcome->error)
        core_.uploads.insert(outcome->change.new_upload);
    }
    const auto removes = [](const auto& one) { return one.second->steps[kAfter].Count() > 0; };
    if (std::ranges::any_of(writes_, removes)) ++core_.moves;
    write_step(kAfter);
  }
  for (const auto& outcome : outcomes_) settle(*outcome);
}

void CommitBatch::settle(Outcome& outcome) {
  const Change& change = outcome.change;
  const bool was_planned = !outcome.error;
  bool index_failed = false;
  for (const DriveWrites* writes : outcome.writes) {
    if (outcome.error || (!writes->error && taken_ != kBefore)) continue;
    outcome.error = writes->error ? writes->error->copy() : refusal_->copy();
    index_failed = true;
  }
  if (outcome.changes_object && was_planned) {
    const bool shows = !outcome.error && change.kind != Change::Kind::kRemove;
    core_.cache.end_change(outcome.hash, shows ? outcome.object : nullptr);
  }
  if (outcome.error) {
    outcome.object.reset();
    if (change.drive == nullptr) return;
    // Whether a failed write of the log is there after a restart nobody knows: then the files must be there
    // too, or the sweep takes them.
    if (index_failed) {
      change.drive->need_sweep();
    } else if (change.kind == Change::Kind::kPut || change.kind == Change::Kind::kPart ||
               change.kind == Change::Kind::kRewrite) {
      change.drive->drop_files(change.new_files);
    }
    return;
  }
  if (change.drive != nullptr) {
    change.drive->keeper().settle(change.new_files);
    for (const MovedPart& part : change.moved_parts) change.drive->keeper().settle(files_of(part.after));
  }
  if (change.new_upload != nullptr) core_.uploads.insert(change.new_upload);
  if (change.kind == Change::Kind::kAbortUpload ||
      (change.kind == Change::Kind::kPut && !change.upload.empty())) {
    core_.uploads.erase(change.upload);
  }
  if (outcome.changes_object && is_pending(change.record) && core_.on_pending_shard) core_.on_pending_shard();
  for (const DroppedFiles& dropped : outcome.dropped) {
    const auto writes = writes_.find(dropped.drive.get());
    const bool record_is_gone = dropped.step <= taken_ && (writes == writes_.end() || !writes->second->error);
    if (record_is_gone) {
      dropped.drive->drop_files(dropped.files);
    } else {
      dropped.drive->need_sweep();
    }
  }
  if (change.drive != nullptr) {
    change.drive->commits.count(change.record.size, steady_us() - change.submitted_us);
  }
}

void CommitBatch::answer() {
  for (const auto& outcome : outcomes_) {
    const LocalDone done = std::exchange(outcome->change.done, nullptr);
    if (!done) continue;
    if (outcome->error) {
      done(std::move(*outcome->error));
    } else {
      done(std::move(outcome->object));
    }
  }
}

}  // namespace millrace::store
