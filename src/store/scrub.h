// Scrubber: reads everything there is, slowly, and compares it with its checksums.
//
// One cycle goes over all objects of all drives: file sizes, trailers, every block, and the bytes inside the
// index. The rate is limited; what it reads does not displace what others read. Damage goes to the store's
// list.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "store/core.h"

namespace millrace::store {

class Scrubber {
 public:
  explicit Scrubber(Core& core) : core_(core) {}
  ~Scrubber();

  void start();
  void stop();
  ScrubStatus status() const;
  void now();

 private:
  void run();
  void cycle();
  bool scrub_drive(const std::shared_ptr<Drive>& drive);
  void scrub_object(const Object& object);
  // Waits as long as these bytes may take; false when the scrubber is to stop.
  bool pace(uint64_t bytes);

  Core& core_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;       // guarded by mutex_
  bool asked_ = false;         // guarded by mutex_
  bool running_ = false;       // guarded by mutex_
  uint64_t cycles_ = 0;        // guarded by mutex_
  uint64_t bytes_done_ = 0;    // guarded by mutex_; of this cycle
  uint64_t objects_done_ = 0;  // guarded by mutex_; of this cycle
  std::jthread thread_;
};

}  // namespace millrace::store
