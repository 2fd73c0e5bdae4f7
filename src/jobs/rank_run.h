// RankRun: this node's rank in one attempt at a stage that all nodes work on together.
//
// A thread starts a worker, which listens; once the addresses of all ranks are known, begin() lets it sort.
// Dropped before its end, the worker is killed. Any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "jobs/worker_process.h"

namespace millrace::jobs {

struct RankRunOptions {
  uint32_t attempt = 0;
  WorkSetup setup;
  std::string host;
  WorkerCommand worker;
  std::function<void()> changed;  // the state is another; from the run's thread
};

class RankRun {
 public:
  explicit RankRun(RankRunOptions options);
  ~RankRun();
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  uint32_t attempt() const { return options_.attempt; }
  // host:port; empty: not yet.
  std::string address() const;
  void begin(WorkRanks ranks);  // again: nothing
  // Nothing: under way.
  std::optional<WorkResult> result() const;
  std::string log() const;

 private:
  void run();
  WorkResult work();

  const RankRunOptions options_;
  WorkerProcess process_;
  mutable Mutex mutex_;
  ConditionVariable begun_;
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  std::string address_ MR_GUARDED_BY(mutex_);
  std::optional<WorkRanks> ranks_ MR_GUARDED_BY(mutex_);
  std::optional<WorkResult> result_ MR_GUARDED_BY(mutex_);
  std::string log_ MR_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace millrace::jobs
