// Housekeeper: what must be done now and then: sweep after an unclean stop, probe failed drives, compare
// those that missed commits with the others, rest slow ones, expire uploads, move objects off draining
// drives.
//
// One thread; each task is small or can be interrupted, and may be cut short by a crash at any point.
#pragma once

#include "base/background.h"
#include "store/core.h"
#include "store/drain.h"
#include "store/multipart.h"
#include "store/pace.h"

namespace millrace::store {

class Housekeeper {
 public:
  Housekeeper(Core& core, Multipart& multipart) : core_(core), multipart_(multipart), mover_(core) {}

  void start();
  void stop() { thread_.stop(); }
  // There may be something to do at once: a drive came, or is to be drained.
  void wake() { thread_.wake(); }

 private:
  void round();
  bool goes_on() const { return thread_.goes_on(); }
  void sweep_unclean();
  void expire_uploads();
  void sweep(Drive& drive);
  void probe_failed();
  void catch_up(const std::shared_ptr<Drive>& drive, DriveIndex::Recovery recovery);
  // Whether the index lost commits; says so.
  bool report_loss(Drive& drive);
  void judge_pace();
  void return_memory();

  Core& core_;
  Multipart& multipart_;
  Mover mover_;
  PaceWatch pace_;
  uint64_t held_ = 0;        // by requests, in the rounds since memory was returned; each round's peak
  bool has_swept_ = false;   // what an unclean stop left
  uint64_t expired_us_ = 0;  // when uploads were last expired; 0: not yet
  Background thread_;        // last: a round uses all of the above
};

}  // namespace millrace::store
