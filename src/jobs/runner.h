// JobRunner: a node's part in the jobs of its cluster.
//
// One thread (the steps) looks at the registry: it claims tasks for this node, reports results, moves jobs
// from stage to stage and ends them. `slots` threads run tasks, each in a worker process of its own; ranks of
// sorts have a thread and a process of their own. Any node may make any of the steps that concern a whole
// job: each is a compare-and-swap, and doing it twice is doing it once. start(), stop(): the owner; the rest:
// any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/background.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cluster/registry.h"
#include "jobs/job_book.h"
#include "jobs/plan.h"
#include "jobs/rank_run.h"
#include "jobs/worker_process.h"
#include "transfer/stores.h"

namespace millrace::jobs {

// A node that acts.
struct Neighbour {
  std::string claimant;  // one process of one node
  uint32_t number = 0;
  std::string host;  // where ranks of this node listen
};

// What the runner must know of the node and its cluster.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  // This node's process; empty while it may not act.
  virtual std::string self() = 0;
  // Those that act, this one too, by number.
  virtual std::vector<Neighbour> neighbours() = 0;
  // The object's bytes are here, or some of them.
  virtual bool holds(const ObjectAddress& object) = 0;
  // Requests of clients so far, without those of jobs.
  virtual uint64_t client_requests() = 0;
};

struct RunnerOptions {
  unsigned slots = 1;     // tasks at a time
  unsigned share = 50;    // of the slots, in percent, while clients ask for objects
  std::string directory;  // for workers; made and emptied
  WorkerCommand worker;   // how workers are started
  shard::Confinement confinement = shard::Confinement::kBubblewrap;
  std::vector<std::string> readable;  // for commands of jobs
};

// Of this node since its start.
struct RunnerReading {
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t given_back = 0;
  unsigned running = 0;
  unsigned allowed = 0;  // slots in use at most, now
};

class JobRunner {
 public:
  JobRunner(cluster::Registry& registry, Surroundings& surroundings, transfer::Stores& stores,
            RunnerOptions options, Log& log);
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  Status start();
  // Kills workers, gives back what is claimed. Safe to call again.
  void stop();

  // Blocks on the registry and, to find the inputs, on the store.
  Result<Job> start_job(Description description);
  Result<Job> stop_job(const std::string& id);
  Result<Job> retry_job(const std::string& id);
  Status remove_job(const std::string& id);
  JobBook& book() { return book_; }
  RunnerReading read() const;

 private:
  struct Work {
    std::string job;
    size_t stage = 0;
    uint64_t table = 0;
    size_t task = 0;
    Task what;
    std::shared_ptr<const WorkSetup> setup;  // without a directory
  };
  struct Finished {
    uint64_t table = 0;
    size_t task = 0;
    WorkResult result;
    std::string log;
    uint64_t took_us = 0;
    bool given_back = false;
  };
  // What this node knows of the stage of a job that is under way.
  struct Local {
    size_t stage = 0;
    std::map<uint64_t, std::vector<Task>> lists;
    std::map<uint64_t, std::vector<bool>> here;   // whose bytes this node holds
    std::set<std::pair<uint64_t, size_t>> known;  // claimed, and not yet reported
    std::shared_ptr<const WorkSetup> setup;
    uint64_t looked_us = 0;
    uint64_t task_us = 0;  // about how long a task takes
    bool is_cancelled = false;
    std::unique_ptr<RankRun> ranks;
    uint64_t broken_since_us = 0;  // a rank of this attempt lost another
  };
  struct Slot {
    explicit Slot(const WorkerCommand& command) : process(command) {}
    WorkerProcess process;
    std::string job;  // under way; empty: none
    std::shared_ptr<const WorkSetup> setup;
    std::string directory;
    std::thread thread;
  };

  // ---- the steps' thread
  void step();
  Status step_job(Job& job);
  Status step_tasks(Job& job, Local& local);
  Status step_ranks(Job& job, Local& local);
  Status step_stopping(Job& job, Local& local);
  Status begin_stage(const Job& job, Local& local);
  Status load_list(const Job& job, Local& local, uint64_t table);
  // The table with what this node has to say of it; false where nothing changes.
  bool report(const Job& job, Local& local, KnownTable& table, const std::vector<Finished>& finished);
  void claim(const Job& job, Local& local, std::vector<KnownTable>& tables, std::set<size_t>& changed);
  Status write_tables(const Job& job, Local& local, std::vector<KnownTable>& tables,
                      const std::set<size_t>& changed);
  void enqueue(const Job& job, Local& local, const KnownTable& table);
  Status note_logs(const Job& job, const Local& local, const std::vector<Finished>& finished);
  Status finish_stage(Job& job, const Sums& sums, uint64_t failed);
  Status end_job(Job& job, JobState state, std::string message);
  Status clean_up(const Job& job);
  Status make_attempt(const Job& job, RankTable table, bool counts);
  Status tend_rank(const Job& job, Local& local, RankTable& table, size_t own);
  void cancel(const std::string& job);
  size_t under_way(const std::string& job);
  size_t count_finished(const std::string& job) const;
  bool is_due(const Job& job, const Local& local);
  std::vector<Finished> take_finished(const std::string& job);
  bool is_gone(const std::string& claimant) const;
  void look_at_clients();
  void look_again();

  // ---- a slot's thread
  void serve(Slot& slot);
  std::optional<Work> take_work(Slot& slot);
  Finished run(Slot& slot, const Work& work);
  Result<WorkResult> ask(Slot& slot, const Work& work);

  Surroundings& surroundings_;
  transfer::Stores& stores_;
  const RunnerOptions options_;
  Log& log_;
  JobBook book_;
  cluster::Registry& registry_;

  // Of the steps' thread.
  std::map<std::string, Local> locals_;  // by job
  std::string self_;
  std::vector<Neighbour> neighbours_;
  bool has_jobs_ = true;  // when it last looked
  uint64_t listed_us_ = 0;
  std::set<std::string> ranked_;  // jobs whose ranks may be under way
  uint64_t clients_seen_ = 0;
  uint64_t clients_looked_us_ = 0;
  uint64_t clients_asked_us_ = 0;

  std::atomic<bool> look_ = true;  // there may be a new job

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ MR_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::deque<Work>> waiting_ MR_GUARDED_BY(mutex_);  // by job
  std::map<std::string, unsigned> running_ MR_GUARDED_BY(mutex_);          // by job
  std::map<std::string, std::vector<Finished>> finished_ MR_GUARDED_BY(mutex_);
  unsigned allowed_ MR_GUARDED_BY(mutex_) = 1;
  RunnerReading reading_ MR_GUARDED_BY(mutex_);

  std::vector<std::unique_ptr<Slot>> slots_;
  std::unique_ptr<cluster::Watch> watch_;
  Background steps_;
};

}  // namespace millrace::jobs
