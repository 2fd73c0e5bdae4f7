// WorkerProcess: a child of the node that runs tasks (jobs/worker.h), and what it said.
//
// It is nice to everyone else: lowest priority for the processor and for drives. It dies with the thread that
// started it, and so with the node; its commands die with it. ask() and start() belong to one thread; kill()
// may come from any.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "jobs/worker_lines.h"

namespace millrace::jobs {

struct WorkerCommand {
  std::string program;                 // millrace
  std::vector<std::string> variables;  // NAME=value: the store, its keys; instead of those of this process
};

class WorkerProcess {
 public:
  explicit WorkerProcess(const WorkerCommand& command) : command_(command) {}
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool is_running() const;
  Status start();
  Status say(const WorkOrder& order);
  // Waits for the answer. kUnavailable: it ended instead, and how.
  Result<WorkAnswer> hear();
  // Ends it, and everything that it started.
  void kill();
  // The end of what it and its commands said since the last call.
  std::string take_log();

 private:
  Status end();
  bool read_log();

  const WorkerCommand& command_;
  mutable Mutex mutex_;
  pid_t process_ MR_GUARDED_BY(mutex_) = 0;  // 0: none
  File orders_;
  File answers_;
  File errors_;
  std::string heard_;
  std::string log_;
};

}  // namespace millrace::jobs
