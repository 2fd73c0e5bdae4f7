// TaskTable: the state of up to kMostTasks tasks of a job, as one value of the registry.
//
// A task is free, claimed by a node's process, done, or failed for good. Nodes claim several tasks and report
// several results in one compare-and-swap, so that 100 000 tasks are a hundred values and not 100 000. A
// claim counts as long as its process acts; whoever sees that a process is gone gives its tasks back. Sums
// (bytes, samples, counters) are kept with the states: what a task adds is added with its becoming done, and
// so once. A value; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::jobs {

inline constexpr size_t kMostTasks = 1024;    // of one table
inline constexpr size_t kMostClaimants = 26;  // of one table at a time
inline constexpr size_t kMostSums = 256;      // names of sums; more are refused

using Sums = std::map<std::string, int64_t>;

class TaskTable {
 public:
  explicit TaskTable(size_t tasks = 0) : states_(tasks, kFree) {}
  // kCorrupt: not what encode() made.
  static Result<TaskTable> decode(std::string_view text);
  std::string encode() const;

  size_t size() const { return states_.size(); }
  struct Counts {
    size_t free = 0;
    size_t claimed = 0;
    size_t done = 0;
    size_t failed = 0;
  };
  Counts count() const;
  const Sums& sums() const { return sums_; }

  // Up to `most` free tasks for which `may` is true; they are the claimant's then.
  std::vector<size_t> claim(const std::string& claimant, size_t most, const std::function<bool(size_t)>& may);
  // False: the claim is not this claimant's any more, and nothing changes.
  bool finish(const std::string& claimant, size_t task, const Sums& sums);
  // One attempt more; from `most_attempts` on the task has failed for good.
  bool fail(const std::string& claimant, size_t task, uint32_t most_attempts);
  bool give_back(const std::string& claimant, size_t task);
  // Claims of those who are gone become free. How many.
  size_t release(const std::function<bool(const std::string& claimant)>& is_gone);
  // Failed tasks get all their attempts again. How many.
  size_t retry();

  std::vector<size_t> failed() const;
  uint32_t attempts(size_t task) const;
  // Of tasks under way, by claimant.
  std::map<std::string, size_t> claimants() const;
  std::vector<size_t> claimed_by(const std::string& claimant) const;

 private:
  static constexpr char kFree = '.';
  static constexpr char kDone = 'd';
  static constexpr char kFailed = 'x';
  static constexpr char kFirstClaimant = 'A';
  static bool is_claimed(char state) {
    return state >= kFirstClaimant && state < static_cast<char>(kFirstClaimant + kMostClaimants);
  }
  bool is_of(const std::string& claimant, size_t task) const;
  // Those who hold nothing any more make room.
  void tidy();

  std::string states_;
  std::vector<std::string> claimants_;  // by letter; empty: nobody
  std::map<size_t, uint32_t> attempts_;
  Sums sums_;
};

}  // namespace millrace::jobs
