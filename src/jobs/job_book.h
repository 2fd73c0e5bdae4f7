// JobBook: the jobs of a cluster in its registry. Few values, each changed by compare-and-swap.
//
//   jobs/ID                  the job: description, state, stages
//   job-lists/ID/STAGE/N     the tasks of one table: what goes in, what comes out; never changes
//   job-tables/ID/STAGE/N    their states (jobs/task_table.h)
//   job-ranks/ID/STAGE       the ranks of a stage that all nodes work on together
//   job-logs/ID/STAGE-TASK   the end of what a failed task said
//
// Calls block on the registry. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/registry.h"
#include "jobs/description.h"
#include "jobs/task_table.h"

namespace millrace::jobs {

inline constexpr size_t kMostActiveJobs = 64;
inline constexpr size_t kMostKeptJobs = 100;  // that have ended; the oldest go first
inline constexpr size_t kMostLogs = 100;      // of one job
inline constexpr size_t kMostLogBytes = 8 << 10;
inline constexpr uint64_t kMostJobTasks = 500'000;

enum class JobState { kRunning, kStopping, kStopped, kFailed, kDone };
std::string_view state_name(JobState state);
inline bool has_ended(JobState state) {
  return state == JobState::kStopped || state == JobState::kFailed || state == JobState::kDone;
}

enum class StageKind { kTasks, kRanks };
struct Stage {
  std::string name;  // "map"
  StageKind kind = StageKind::kTasks;
  uint64_t tasks = 0;  // or shards that go in
  uint64_t tables = 0;
  uint64_t bytes = 0;  // as far as sizes are known
  bool operator==(const Stage&) const = default;
};

struct Job {
  std::string id;
  Description description;
  JobState state = JobState::kRunning;
  std::vector<Stage> stages;  // the last is the one under way
  int64_t created_ms = 0;
  int64_t staged_ms = 0;    // the last stage began
  int64_t finished_ms = 0;  // 0: not yet
  std::string message;      // why it failed
  uint64_t revision = 0;    // of the registry

  size_t stage() const { return stages.size() - 1; }
};
std::string encode(const Job& job);
Result<Job> decode_job(const std::string& id, std::string_view text);

struct Task {
  std::string input;    // address
  std::string output;   // address; empty: none
  uint64_t size = 0;    // of the input; 0: not known
  uint64_t number = 0;  // among all of the stage
  bool operator==(const Task&) const = default;
};
std::string encode(const std::vector<Task>& tasks);
Result<std::vector<Task>> decode_tasks(std::string_view text);

// One rank of a stage that all nodes work on together.
enum class RankState { kInvited, kListening, kDone, kFailed };
struct Rank {
  std::string claimant;  // a node's process
  std::string address;   // host:port, from kListening on
  RankState state = RankState::kInvited;
  std::string message;
  bool operator==(const Rank&) const = default;
};
struct RankTable {
  uint32_t attempt = 0;
  uint32_t failures = 0;  // attempts that failed although nobody was lost
  std::string secret;     // of this attempt
  std::vector<Rank> ranks;
  Sums sums;  // once all are done
  uint64_t revision = 0;
};
std::string encode(const RankTable& table);
Result<RankTable> decode_ranks(std::string_view text);

struct KnownTable {
  uint64_t number = 0;
  uint64_t revision = 0;
  TaskTable table;
};

class JobBook {
 public:
  explicit JobBook(cluster::Registry& registry) : registry_(registry) {}

  // As jobs are named: letters and digits.
  static std::string make_job_id();
  Result<std::vector<Job>> list();  // the oldest first
  Result<Job> get(const std::string& id);
  // Its first stage's tasks are there before the job is.
  Result<Job> create(Job job, const std::vector<Task>& tasks);
  // False: somebody else changed it. The job has its new revision afterwards.
  Result<bool> replace(Job& job);
  // Writes tables and lists for a stage; one that is written already stays. Gives the number of tables.
  Result<uint64_t> add_stage(const std::string& id, size_t stage, const std::vector<Task>& tasks);
  // All that the registry has of a job that has ended.
  Status remove(const std::string& id);

  Result<std::vector<KnownTable>> tables(const std::string& id, size_t stage);
  Result<bool> replace_table(const std::string& id, size_t stage, KnownTable& table);
  Result<KnownTable> table(const std::string& id, size_t stage, uint64_t number);
  Result<std::vector<Task>> tasks(const std::string& id, size_t stage, uint64_t number);
  // Of all tables, in order.
  Result<std::vector<Task>> all_tasks(const std::string& id, size_t stage);

  // Revision 0: there is none yet.
  Result<RankTable> ranks(const std::string& id, size_t stage);
  Result<bool> replace_ranks(const std::string& id, size_t stage, RankTable& table);

  Status note_log(const std::string& id, size_t stage, const std::string& task, std::string_view text);
  Result<std::map<std::string, std::string>> logs(const std::string& id);  // by "stage-task"

 private:
  Status remove_prefix(const std::string& prefix);
  Status forget_oldest(const std::vector<Job>& jobs);

  cluster::Registry& registry_;
};

// Numbers of tables are as wide as this, so that names are in their order.
std::string table_name(std::string_view kind, const std::string& id, size_t stage, uint64_t number);

}  // namespace millrace::jobs
