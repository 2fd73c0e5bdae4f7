// Committer: the one place where records change. One thread per drive, and every key has its committer.
//
// It takes all changes that wait, judges each against the newest record (and the changes before it in the
// batch), writes them as one batch per drive with one flush of the log, and only then answers. So 64 writers
// share a flush, and a condition has exactly one winner. A commit over two drives writes the new record first
// and removes the old one after; removals go oldest first: at every moment the newest version that is there
// is the truth.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "store/local_object.h"
#include "store/objects.h"
#include "store/record.h"
#include "store/uploads.h"

namespace millrace::store {

class Core;
class Drive;

using LocalDone = Done<std::shared_ptr<const LocalObject>>;

struct MovedPart {
  uint32_t number = 0;
  Record before;
  Record after;  // the same bytes on the other drive
};

struct Change {
  enum class Kind : uint8_t {
    kPut,           // an object; with `upload`, the completion of that upload
    kRemove,        // an object
    kRewrite,       // the same version at another place, or with another head: only while it is still there
    kTidy,          // takes away older records of a key, and its tombstone once every drive is there
    kCreateUpload,  // `new_upload`
    kPart,          // of `upload`
    kAbortUpload,
    kMoveUpload,  // `new_upload`, from where it is to `drive`: only while its parts are those of
                  // `moved_parts`
    kTidyUpload,  // takes away what a move that was cut short left of it on `drive`
  };
  Kind kind = Kind::kPut;
  std::string bucket;
  std::string key;
  Condition condition;
  Durability durability = Durability::kFlush;
  std::shared_ptr<Drive> drive;  // where the record goes
  Record record;                 // version 0: given at the commit
  std::string inline_bytes;
  std::string upload;
  uint32_t part = 0;
  std::shared_ptr<const Upload> new_upload;
  std::vector<MovedPart> moved_parts;
  uint64_t expected_version = 0;    // kRewrite
  uint64_t expected_head = 0;       // kRewrite
  std::vector<uint64_t> new_files;  // written for this change: removed again where it is refused
  uint64_t submitted_us = 0;
  LocalDone done;
};

class Committer {
 public:
  explicit Committer(Core& core);
  ~Committer();

  void push(Change change);
  std::deque<Change> take_all();
  // Finishes what was pushed.
  void stop();

 private:
  void run();
  void gather(size_t last_size);

  Core& core_;
  Mutex mutex_;
  ConditionVariable filled_;
  std::deque<Change> queue_ MR_GUARDED_BY(mutex_);  // one per writer
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace millrace::store
