// Counts tables, and puts the numbers into words that the guide explains.
#include "jobs/job_report.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/number.h"
#include "jobs/plan.h"
#include "jobs/strict_json.h"

namespace millrace::jobs {

namespace {

constexpr std::string_view kCounterPrefix = "counter:";
constexpr size_t kMostShownFailures = 100;

struct StageCounts {
  uint64_t free = 0;
  uint64_t claimed = 0;
  uint64_t done = 0;
  uint64_t failed = 0;
  Sums sums;
  std::map<std::string, size_t> claimants;
  std::vector<uint64_t> failures;  // numbers of tasks
};

Result<StageCounts> count_tasks(JobBook& book, const Job& job, size_t stage) {
  StageCounts all;
  uint64_t before = 0;
  for (const KnownTable& known : MR_TRY(book.tables(job.id, stage))) {
    const TaskTable::Counts counts = known.table.count();
    all.free += counts.free;
    all.claimed += counts.claimed;
    all.done += counts.done;
    all.failed += counts.failed;
    for (const auto& [name, value] : known.table.sums()) all.sums[name] += value;
    for (const auto& [claimant, count] : known.table.claimants()) all.claimants[claimant] += count;
    for (const size_t task : known.table.failed()) all.failures.push_back(before + task);
    before += known.table.size();
  }
  return all;
}

Result<StageCounts> count_ranks(JobBook& book, const Job& job, size_t stage) {
  StageCounts all;
  const RankTable table = MR_TRY(book.ranks(job.id, stage));
  for (const Rank& rank : table.ranks) {
    if (rank.state == RankState::kDone) ++all.done;
    if (rank.state == RankState::kFailed) ++all.failed;
    if (rank.state == RankState::kInvited || rank.state == RankState::kListening) {
      ++all.claimed;
      ++all.claimants[rank.claimant];
    }
  }
  all.sums = table.sums;
  return all;
}

Json stage_json(const Job& job, size_t number, const StageCounts& counts) {
  const Stage& stage = job.stages[number];
  Json sums = Json::object();
  Json counters = Json::object();
  for (const auto& [name, value] : counts.sums) {
    if (name.starts_with(kCounterPrefix))
      counters[name.substr(kCounterPrefix.size())] = value;
    else
      sums[name] = value;
  }
  Json json = {{"name", stage.name},
               {"together", stage.kind == StageKind::kRanks},
               {stage.kind == StageKind::kRanks ? "shards" : "tasks", stage.tasks},
               {"waiting", counts.free},
               {"running", counts.claimed},
               {"done", counts.done},
               {"failed", counts.failed},
               {"bytes", stage.bytes},
               {"sums", sums}};
  if (!counters.empty()) json["counters"] = counters;
  return json;
}

// Of the stage under way. A sort tells of itself only when it is done.
void add_pace(Json& json, const Job& job, const StageCounts& counts) {
  const Stage& stage = job.stages.back();
  const int64_t until = job.finished_ms != 0 ? job.finished_ms : wall_ms();
  const double seconds = std::max(0.001, static_cast<double>(until - job.staged_ms) / 1000);
  json["seconds"] = std::max(0.0, static_cast<double>(until - job.created_ms) / 1000);
  if (stage.kind == StageKind::kRanks || counts.done == 0) return;
  json["tasks_per_second"] = static_cast<double>(counts.done) / seconds;
  const auto bytes = counts.sums.find("bytes_in");
  if (bytes != counts.sums.end()) json["bytes_per_second"] = static_cast<double>(bytes->second) / seconds;
  const double left = static_cast<double>(counts.free + counts.claimed);
  if (!has_ended(job.state)) json["seconds_left"] = left * seconds / static_cast<double>(counts.done);
}

// The input of a task, by its number among those of a stage.
Result<std::string> input_of(JobBook& book, const Job& job, uint64_t number) {
  for (uint64_t table = 0; table < job.stages.back().tables; ++table) {
    for (const Task& task : MR_TRY(book.tasks(job.id, job.stage(), table))) {
      if (task.number == number) return task.input;
    }
  }
  return std::string();
}

Status add_failures(Json& json, JobBook& book, const Job& job, const StageCounts& counts) {
  const auto logs = MR_TRY(book.logs(job.id));
  Json failures = Json::array();
  std::set<std::string> shown;
  for (const uint64_t number : counts.failures) {
    if (failures.size() == kMostShownFailures) break;
    const std::string name = fmt::format("{}-{}", job.stage(), number);
    const auto log = logs.find(name);
    failures.push_back({{"task", number},
                        {"input", MR_TRY(input_of(book, job, number))},
                        {"log", log == logs.end() ? "" : log->second}});
    shown.insert(name);
  }
  json["failures"] = failures;
  // Of attempts whose task was done later, and of ranks.
  Json others = Json::object();
  for (const auto& [name, text] : logs) {
    if (!shown.contains(name)) others[name] = text;
  }
  json["logs"] = others;
  return {};
}

}  // namespace

Result<Json> report_job(JobBook& book, const Job& job, Detail detail) {
  Json json = {{"id", job.id},
               {"kind", kind_name(job.description.kind)},
               {"state", state_name(job.state)},
               {"created", format_iso_date(job.created_ms)}};
  if (!job.description.note.empty()) json["note"] = job.description.note;
  if (job.finished_ms != 0) json["finished"] = format_iso_date(job.finished_ms);
  if (!job.message.empty()) json["message"] = job.message;
  json["inputs"] = job.description.inputs;
  if (!job.description.output.empty()) json["output"] = job.description.output;
  Json stages = Json::array();
  StageCounts last;
  for (size_t number = 0; number < job.stages.size(); ++number) {
    last = job.stages[number].kind == StageKind::kRanks ? MR_TRY(count_ranks(book, job, number))
                                                        : MR_TRY(count_tasks(book, job, number));
    stages.push_back(stage_json(job, number, last));
  }
  json["stages"] = stages;
  add_pace(json, job, last);
  Json nodes = Json::object();
  for (const auto& [claimant, count] : last.claimants) nodes[claimant.substr(0, claimant.find(':'))] = count;
  json["nodes"] = nodes;
  if (detail == Detail::kSummary) return json;
  json["job"] = Json::parse(encode(job.description));
  MR_TRY(add_failures(json, book, job, last));
  return json;
}

}  // namespace millrace::jobs
