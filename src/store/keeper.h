// FileKeeper: delays the removal of files while someone still reads the object they belong to.
//
// An Object pins its files as long as it lives; a file that is dropped while pinned goes with its last pin.
// The index has forgotten it already, so a crash in between leaves only what the sweep finds. Any thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"

namespace millrace::store {

class FileKeeper {
 public:
  void pin(const std::vector<uint64_t>& files);
  // Those that were dropped before and can be removed now.
  std::vector<uint64_t> unpin(const std::vector<uint64_t>& files);
  // Those that can be removed now; the others follow at unpin.
  std::vector<uint64_t> drop(const std::vector<uint64_t>& files);
  // A file that no record names yet, from before it can be seen until its commit is decided: the sweep leaves
  // it alone, as it leaves alone what is dropped and still read.
  void begin(uint64_t file);
  void settle(const std::vector<uint64_t>& files);
  bool is_busy(uint64_t file) const;
  // Everything dropped and not yet removed: the end of the drive's use.
  std::vector<uint64_t> take_dropped();

 private:
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, uint32_t> pins_ MR_GUARDED_BY(mutex_);
  std::unordered_set<uint64_t> dropped_ MR_GUARDED_BY(mutex_);  // all of them are pinned
  std::unordered_set<uint64_t> fresh_ MR_GUARDED_BY(mutex_);    // begun and not settled
};

}  // namespace millrace::store
