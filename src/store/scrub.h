// Scrubber: reads everything there is, slowly, and compares it with its checksums.
//
// One cycle goes over all objects of all drives: file sizes, trailers, every block, and the bytes inside the
// index. The rate is limited; what it reads does not displace what others read. Damage goes to the store's
// list. Every drive's index remembers when its last cycle ended and how far the one under way has come, so
// that a node that is started again goes on there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/background.h"
#include "base/mutex.h"
#include "store/core.h"

namespace millrace::store {

class Scrubber {
 public:
  explicit Scrubber(Core& core) : core_(core) {}

  void start();
  void stop() { thread_.stop(); }
  ScrubStatus status() const;
  void now();

 private:
  // What a drive's index remembers.
  struct Mark {
    int64_t ended_ms = 0;
    std::string position;  // the last key that was looked at; empty: no cycle is under way
  };

  void round();
  void cycle(const std::vector<std::weak_ptr<Drive>>& drives);
  bool scrub_drive(const std::shared_ptr<Drive>& drive);
  // The drives that are due; nothing is held of them: a drive may be taken out.
  std::vector<std::weak_ptr<Drive>> due_drives();
  Mark mark_of(Drive& drive) const;
  void set_mark(Drive& drive, const Mark& mark) const;
  void scrub_object(const LocalObject& object);
  // What a cycle over these drives reads, as their indexes have it.
  uint64_t count_bytes(const std::vector<std::weak_ptr<Drive>>& drives);
  // Waits as long as these bytes may take; false when the scrubber is to stop.
  bool pace(uint64_t bytes);

  Core& core_;
  mutable Mutex mutex_;
  bool asked_ MR_GUARDED_BY(mutex_) = false;
  bool running_ MR_GUARDED_BY(mutex_) = false;
  uint64_t cycles_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_done_ MR_GUARDED_BY(mutex_) = 0;    // of this cycle
  uint64_t bytes_total_ MR_GUARDED_BY(mutex_) = 0;   // of this cycle
  uint64_t objects_done_ MR_GUARDED_BY(mutex_) = 0;  // of this cycle
  Background thread_;                                // last: a round uses all of the above
};

}  // namespace millrace::store
