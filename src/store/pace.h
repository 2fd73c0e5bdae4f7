// How fast each drive takes blocks, and which one is much slower than its peers.
//
// Only the time in which a drive has something to write counts, so a drive that gets more than the others is
// not taken for slow. One that is gets no new objects for a while, and is judged again when it comes back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace millrace::store {

// The time in which something was under way. One thread begins and ends, any thread reads.
class BusyTime {
 public:
  // Either may be said again.
  void begin();
  void end();
  uint64_t read_us() const;

 private:
  mutable Mutex mutex_;
  uint64_t since_us_ MR_GUARDED_BY(mutex_) = 0;  // 0 while idle
  uint64_t total_us_ MR_GUARDED_BY(mutex_) = 0;
};

// Judges by rounds of about a second. Pure but for what it remembers. One thread.
class PaceWatch {
 public:
  static constexpr uint64_t kRatio = 8;                  // slower than its peers by this much is slow
  static constexpr unsigned kRounds = 3;                 // so many in a row
  static constexpr uint64_t kLeastBusy_us = 100'000;     // in a round, to be judged at all
  static constexpr uint64_t kRateAge_us = 60'000'000;    // what a drive did longer ago does not count
  static constexpr uint64_t kFirstRest_us = 60'000'000;  // doubled each time
  static constexpr uint64_t kLongestRest_us = 3'600'000'000;

  struct Reading {
    std::string id;
    bool rotational = false;  // only its own kind is compared
    uint64_t bytes = 0;       // written since it was opened
    uint64_t busy_us = 0;     // and the time it took
  };
  struct Verdict {
    std::string id;
    uint64_t bytes_per_second = 0;
    uint64_t peers_bytes_per_second = 0;  // their median
    uint64_t rest_us = 0;
  };

  // One round: the drives that serve, and those that now have to rest.
  std::vector<Verdict> judge(uint64_t now_us, const std::vector<Reading>& drives);
  // Whether the rest of a drive is over.
  bool is_rested(uint64_t now_us, const std::string& id) const;

 private:
  struct History {
    bool rotational = false;
    uint64_t bytes = 0;
    uint64_t busy_us = 0;
    uint64_t bytes_per_second = 0;
    uint64_t measured_us = 0;  // when; 0: never
    unsigned slow_rounds = 0;
    uint64_t last_rest_us = 0;
    uint64_t rests_until_us = 0;
  };
  static void measure(uint64_t now_us, const Reading& drive, History& history);
  std::optional<uint64_t> peers_rate(uint64_t now_us, const Reading& drive) const;

  std::map<std::string, History> histories_;
};

}  // namespace millrace::store
