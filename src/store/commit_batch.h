// CommitBatch: some changes judged together and written together. Used by one committer thread.
#pragma once

#include <rocksdb/write_batch.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/commit.h"
#include "store/core.h"

namespace millrace::store {

class CommitBatch {
 public:
  CommitBatch(Core& core, std::shared_ptr<const DriveMap> map) : core_(core), map_(std::move(map)) {}

  // False where the change must wait for the next batch: it depends on one in this batch in a way that the
  // order of writes over several drives could not keep.
  bool admits(const Change& change) const;
  void add(Change change);
  // Writes, brings the cache up to date, drops files that are not needed any more.
  void write();
  // Answers everyone; after write(), without locks.
  void answer();

 private:
  // Three steps: what must be gone before, the change itself, what may go after. A step that a drive refused
  // ends the batch: an older record outlives its successor, never the other way round.
  enum Step : size_t { kBefore, kItself, kAfter };
  struct DriveWrites {
    std::shared_ptr<Drive> drive;
    rocksdb::WriteBatch steps[3];
    Sync sync = Sync::kNo;
    std::optional<Error> error;
  };
  struct KeyState {
    Lookup lookup;
    bool upload_touched = false;
  };
  struct DroppedFiles {
    std::shared_ptr<Drive> drive;
    std::vector<uint64_t> files;
    Step step = kItself;
  };
  struct Outcome {
    Change change;
    uint64_t hash = 0;
    bool changes_object = false;
    std::shared_ptr<const LocalObject> object;
    std::optional<Error> error;
    std::vector<DroppedFiles> dropped;  // once it is committed
    std::vector<DriveWrites*> writes;   // those that must succeed
  };

  // Those of a drive; `writes_for`: and the outcome depends on them.
  DriveWrites& writes_on(const std::shared_ptr<Drive>& drive, const Outcome& outcome);
  DriveWrites& writes_for(const std::shared_ptr<Drive>& drive, Outcome& outcome);
  KeyState& state_of(const Change& change);
  Status judge(const Change& change, const Lookup& lookup) const;
  // The order of versions is the order of commits, for all records of the key.
  Status give_version(Outcome& outcome, const Lookup& lookup);
  // Drives that will not know of this change, though they may hold an older record, are noted as behind.
  Status note_bypassed(const Lookup& lookup) const;
  Status plan(Outcome& outcome, KeyState& state);
  Status plan_put(Outcome& outcome, KeyState& state);
  Status plan_rewrite(Outcome& outcome, KeyState& state);
  Status plan_remove(Outcome& outcome, KeyState& state);
  void plan_tidy(Outcome& outcome, KeyState& state);
  Status plan_part(Outcome& outcome);
  Status plan_create_upload(Outcome& outcome);
  Status plan_abort(Outcome& outcome);
  Status plan_move_upload(Outcome& outcome);
  Status plan_tidy_upload(Outcome& outcome);
  // Takes the upload's rows away; files that `kept` does not use are dropped. Error where `kept` names a file
  // that is no part of it.
  Status plan_end_of_upload(Outcome& outcome, const Upload& upload, const Record& kept);
  // The rows, and the files of the parts that are still in `rows`.
  void remove_upload(Outcome& outcome, const std::shared_ptr<Drive>& drive, const UploadRows& rows,
                     Step step);
  Status place_record(Outcome& outcome, KeyState& state);
  void remove_record(Outcome& outcome, const Found& old, Step step);
  std::shared_ptr<Drive> tombstone_drive(const Lookup& lookup) const;
  // False where a drive refused it: then the following steps are not taken.
  bool write_step(Step step);
  void settle(Outcome& outcome);

  Core& core_;
  const std::shared_ptr<const DriveMap> map_;
  std::map<Drive*, std::unique_ptr<DriveWrites>> writes_;
  std::unordered_map<std::string, KeyState> states_;
  std::vector<std::unique_ptr<Outcome>> outcomes_;
  std::optional<Error> refusal_;  // of a drive, at any step
  Step taken_ = kAfter;           // the last step that was begun
};

}  // namespace millrace::store
