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
  // Three steps: what must be gone before, the change itself, what may go after.
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
  };
  struct Outcome {
    Change change;
    uint64_t hash = 0;
    bool changes_object = false;
    std::shared_ptr<const Object> object;
    std::optional<Error> error;
    std::vector<DroppedFiles> dropped;  // once it is committed
    std::vector<DriveWrites*> writes;   // those that must succeed
  };

  DriveWrites& writes_for(const std::shared_ptr<Drive>& drive, Outcome& outcome);
  KeyState& state_of(const Change& change);
  Status judge(const Change& change, const Lookup& lookup) const;
  Status plan(Outcome& outcome, KeyState& state);
  Status plan_put(Outcome& outcome, KeyState& state);
  Status plan_rewrite(Outcome& outcome, KeyState& state);
  Status plan_remove(Outcome& outcome, KeyState& state);
  void plan_tidy(Outcome& outcome, KeyState& state);
  bool is_complete() const;  // no known drive is missing or failed
  Status plan_part(Outcome& outcome);
  Status plan_create_upload(Outcome& outcome);
  Status plan_abort(Outcome& outcome);
  // Takes the upload's rows away; files that `kept` does not use are dropped. Error where `kept` names a file
  // that is no part of it.
  Status plan_end_of_upload(Outcome& outcome, const Upload& upload, const Record& kept);
  void place_record(Outcome& outcome, KeyState& state);
  void remove_record(Outcome& outcome, const Found& old, Step step);
  std::shared_ptr<Drive> tombstone_drive(const Lookup& lookup) const;
  void write_step(Step step);
  void settle(Outcome& outcome);

  Core& core_;
  const std::shared_ptr<const DriveMap> map_;
  std::map<Drive*, std::unique_ptr<DriveWrites>> writes_;
  std::unordered_map<std::string, KeyState> states_;
  std::vector<std::unique_ptr<Outcome>> outcomes_;
};

}  // namespace millrace::store
