// The values of jobs: names, encodings, compare-and-swap.
#include "jobs/job_book.h"

#include <algorithm>

#include "base/clock.h"
#include "base/ids.h"
#include "base/number.h"
#include "jobs/strict_json.h"

namespace millrace::jobs {

namespace {

constexpr std::string_view kStates[] = {"running", "stopping", "stopped", "failed", "done"};
constexpr std::string_view kRankStates[] = {"invited", "listening", "done", "failed"};
constexpr size_t kMostStages = 8;
constexpr size_t kMostRanks = 1024;
constexpr size_t kListBytes = 1'000'000;  // of one value; the registry takes a little more
constexpr size_t kIdLetters = 8;

Error not_understood(std::string_view what, const Status& why) {
  return make_error(Code::kCorrupt, "the registry's {} cannot be read: {}", what, why.error().message());
}

template <size_t N>
std::optional<size_t> find_name(const std::string_view (&names)[N], std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<size_t>(found - std::begin(names));
}

Result<Stage> decode_stage(const Json& json) {
  StrictObject object(json, "a stage");
  Stage stage;
  bool ranks = false;
  object.take("name", stage.name);
  object.take("ranks", ranks);
  object.take("tasks", stage.tasks);
  object.take("tables", stage.tables);
  object.take("bytes", stage.bytes);
  MR_TRY(object.finish());
  stage.kind = ranks ? StageKind::kRanks : StageKind::kTasks;
  return stage;
}

Result<Rank> decode_rank(const Json& json) {
  StrictObject object(json, "a rank");
  Rank rank;
  std::string state;
  object.take("claimant", rank.claimant);
  object.take("address", rank.address);
  object.take("state", state);
  object.take("message", rank.message);
  MR_TRY(object.finish());
  const auto known = find_name(kRankStates, state);
  if (!known) return make_error(Code::kInvalid, "a rank has a state that is not known");
  rank.state = static_cast<RankState>(*known);
  return rank;
}

}  // namespace

std::string_view state_name(JobState state) {
  return kStates[static_cast<size_t>(state)];
}

std::string table_name(std::string_view kind, const std::string& id, size_t stage, uint64_t number) {
  return fmt::format("{}/{}/{}/{:06}", kind, id, stage, number);
}

std::string encode(const Job& job) {
  Json stages = Json::array();
  for (const Stage& stage : job.stages) {
    stages.push_back({{"name", stage.name},
                      {"ranks", stage.kind == StageKind::kRanks},
                      {"tasks", stage.tasks},
                      {"tables", stage.tables},
                      {"bytes", stage.bytes}});
  }
  Json json = {{"job", Json::parse(encode(job.description))},
               {"state", state_name(job.state)},
               {"stages", stages},
               {"created_ms", job.created_ms},
               {"staged_ms", job.staged_ms},
               {"finished_ms", job.finished_ms}};
  if (!job.message.empty()) json["message"] = job.message;
  return to_text(json);
}

Result<Job> decode_job(const std::string& id, std::string_view text) {
  const Json json = MR_TRY(parse_json(text, "a job"));
  StrictObject object(json, "a job");
  Job job;
  job.id = id;
  std::string state;
  const Json* const description = object.find("job");
  const Json* const stages = object.find("stages");
  object.take("state", state);
  object.take("created_ms", job.created_ms);
  object.take("staged_ms", job.staged_ms);
  object.take("finished_ms", job.finished_ms);
  object.take("message", job.message);
  if (const Status whole = object.finish(); !whole) return not_understood("job " + id, whole);
  const auto known = find_name(kStates, state);
  const bool has_stages =
      stages != nullptr && stages->is_array() && !stages->empty() && stages->size() <= kMostStages;
  if (!known || description == nullptr || !has_stages)
    return make_error(Code::kCorrupt, "the registry's job {} lacks a description, a state or stages", id);
  job.state = static_cast<JobState>(*known);
  auto decoded = decode_description(to_text(*description));
  if (!decoded) return not_understood("job " + id, Status(decoded.take_error()));
  job.description = decoded.take();
  for (const Json& one : *stages) {
    auto stage = decode_stage(one);
    if (!stage) return not_understood("job " + id, Status(stage.take_error()));
    job.stages.push_back(stage.take());
  }
  return job;
}

std::string encode(const std::vector<Task>& tasks) {
  Json list = Json::array();
  for (const Task& task : tasks)
    list.push_back(Json::array({task.input, task.output, task.size, task.number}));
  return to_text(list);
}

Result<std::vector<Task>> decode_tasks(std::string_view text) {
  const Json json = MR_TRY(parse_json(text, "a list of tasks"));
  if (!json.is_array() || json.size() > kMostTasks)
    return make_error(Code::kCorrupt, "a list of tasks is no list, or too long");
  std::vector<Task> tasks;
  for (const Json& one : json) {
    if (!one.is_array() || one.size() != 4 || !one[0].is_string() || !one[1].is_string() ||
        !one[2].is_number_unsigned() || !one[3].is_number_unsigned())
      return make_error(Code::kCorrupt, "a task is not [input, output, size, number]");
    tasks.push_back({one[0].get<std::string>(), one[1].get<std::string>(), one[2].get<uint64_t>(),
                     one[3].get<uint64_t>()});
  }
  return tasks;
}

std::string encode(const RankTable& table) {
  Json ranks = Json::array();
  for (const Rank& rank : table.ranks) {
    Json json = {{"claimant", rank.claimant}, {"state", kRankStates[static_cast<size_t>(rank.state)]}};
    if (!rank.address.empty()) json["address"] = rank.address;
    if (!rank.message.empty()) json["message"] = rank.message;
    ranks.push_back(std::move(json));
  }
  Json json = {
      {"attempt", table.attempt}, {"failures", table.failures}, {"secret", table.secret}, {"ranks", ranks}};
  if (!table.sums.empty()) json["sums"] = table.sums;
  return to_text(json);
}

Result<RankTable> decode_ranks(std::string_view text) {
  const Json json = MR_TRY(parse_json(text, "a table of ranks"));
  StrictObject object(json, "a table of ranks");
  RankTable table;
  object.take("attempt", table.attempt);
  object.take("failures", table.failures);
  object.take("secret", table.secret);
  object.take("sums", table.sums, kMostSums);
  const Json* const ranks = object.find("ranks");
  if (const Status whole = object.finish(); !whole) return not_understood("table of ranks", whole);
  if (ranks == nullptr || !ranks->is_array() || ranks->size() > kMostRanks)
    return make_error(Code::kCorrupt, "a table of ranks has no ranks, or too many");
  for (const Json& one : *ranks) {
    auto rank = decode_rank(one);
    if (!rank) return not_understood("table of ranks", Status(rank.take_error()));
    table.ranks.push_back(rank.take());
  }
  return table;
}

std::string JobBook::make_job_id() {
  return make_id().substr(0, kIdLetters);
}

Result<std::vector<Job>> JobBook::list() {
  std::vector<Job> jobs;
  for (const cluster::Entry& entry : MR_TRY(registry_.list("jobs/"))) {
    auto job = decode_job(entry.name.substr(5), entry.value);
    // One of a newer version of Millrace, or damaged: the others go on.
    if (!job) continue;
    job->revision = entry.revision;
    jobs.push_back(job.take());
  }
  std::ranges::sort(jobs, [](const Job& a, const Job& b) {
    return std::pair(a.created_ms, a.id) < std::pair(b.created_ms, b.id);
  });
  return jobs;
}

Result<Job> JobBook::get(const std::string& id) {
  const Error missing = make_error(Code::kNotFound, "there is no job {}", printable(id, 64))
                            .with_hint("millrace job list shows them");
  if (id.empty() || id.size() > 64 || !cluster::check_name("jobs/" + id)) return missing.copy();
  const auto entry = MR_TRY(registry_.get("jobs/" + id));
  if (!entry) return missing.copy();
  Job job = MR_TRY(decode_job(id, entry->value));
  job.revision = entry->revision;
  return job;
}

Status JobBook::forget_oldest(const std::vector<Job>& jobs) {
  size_t ended = 0;
  for (const Job& job : jobs) ended += has_ended(job.state) ? 1 : 0;
  for (const Job& job : jobs) {
    if (ended < kMostKeptJobs) break;
    // What a failed job would go on from is in the store still: job remove takes both away.
    const bool may_go_on = job.state == JobState::kFailed && job.description.kind == Kind::kMapReduce;
    if (!has_ended(job.state) || may_go_on) continue;
    MR_TRY(remove(job.id));
    --ended;
  }
  return {};
}

Result<Job> JobBook::create(Job job, const std::vector<Task>& tasks) {
  const std::vector<Job> known = MR_TRY(list());
  const auto active = std::ranges::count_if(known, [](const Job& one) { return !has_ended(one.state); });
  if (static_cast<size_t>(active) >= kMostActiveJobs)
    return make_error(Code::kUnavailable, "{} jobs are under way", active)
        .with_hint("wait for one, or stop one: millrace job list");
  if (tasks.size() > kMostJobTasks)
    return make_error(Code::kTooLarge, "{} tasks are more than a job may have ({})", tasks.size(),
                      kMostJobTasks)
        .with_hint("start several jobs, each with some of the inputs");
  MR_TRY(forget_oldest(known));
  job.created_ms = wall_ms();
  job.staged_ms = job.created_ms;
  job.stages.back().tables = MR_TRY(add_stage(job.id, job.stage(), tasks));
  job.revision = 0;
  if (!MR_TRY(replace(job)))
    return make_error(Code::kUnavailable, "another job took the name {}", job.id).with_hint("try again");
  return job;
}

Result<bool> JobBook::replace(Job& job) {
  const auto swapped = MR_TRY(registry_.swap("jobs/" + job.id, job.revision, encode(job)));
  if (swapped) job.revision = *swapped;
  return swapped.has_value();
}

Result<uint64_t> JobBook::add_stage(const std::string& id, size_t stage, const std::vector<Task>& tasks) {
  uint64_t tables = 0;
  for (size_t at = 0; at < tasks.size(); ++tables) {
    std::vector<Task> some;
    size_t bytes = 0;
    while (at < tasks.size() && some.size() < kMostTasks && bytes < kListBytes) {
      bytes += tasks[at].input.size() + tasks[at].output.size() + 32;
      some.push_back(tasks[at++]);
    }
    MR_TRY(registry_.swap(table_name("job-lists", id, stage, tables), 0, encode(some)));
    MR_TRY(registry_.swap(table_name("job-tables", id, stage, tables), 0, TaskTable(some.size()).encode()));
  }
  return tables;
}

Status JobBook::remove_prefix(const std::string& prefix) {
  for (const cluster::Entry& entry : MR_TRY(registry_.list(prefix)))
    MR_TRY(registry_.remove(entry.name, entry.revision));
  return {};
}

Status JobBook::remove(const std::string& id) {
  Job job = MR_TRY(get(id));
  if (!has_ended(job.state))
    return make_error(Code::kInvalid, "job {} is {}", id, state_name(job.state))
        .with_hint("millrace job stop " + id);
  // The job goes first: nobody looks for the tables of a job that is not there.
  MR_TRY(registry_.remove("jobs/" + id, job.revision));
  for (const std::string_view kind : {"job-lists/", "job-tables/", "job-ranks/", "job-logs/"})
    MR_TRY(remove_prefix(fmt::format("{}{}/", kind, id)));
  return {};
}

Result<std::vector<KnownTable>> JobBook::tables(const std::string& id, size_t stage) {
  std::vector<KnownTable> tables;
  const std::string prefix = fmt::format("job-tables/{}/{}/", id, stage);
  for (const cluster::Entry& entry : MR_TRY(registry_.list(prefix))) {
    const auto number = parse_number<uint64_t>(std::string_view(entry.name).substr(prefix.size()));
    if (!number) continue;
    tables.push_back({*number, entry.revision, MR_TRY(TaskTable::decode(entry.value))});
  }
  return tables;
}

Result<KnownTable> JobBook::table(const std::string& id, size_t stage, uint64_t number) {
  const auto entry = MR_TRY(registry_.get(table_name("job-tables", id, stage, number)));
  if (!entry) return make_error(Code::kNotFound, "job {} has no table {} of stage {}", id, number, stage);
  return KnownTable{number, entry->revision, MR_TRY(TaskTable::decode(entry->value))};
}

Result<bool> JobBook::replace_table(const std::string& id, size_t stage, KnownTable& table) {
  const auto swapped = MR_TRY(registry_.swap(table_name("job-tables", id, stage, table.number),
                                             table.revision, table.table.encode()));
  if (swapped) table.revision = *swapped;
  return swapped.has_value();
}

Result<std::vector<Task>> JobBook::tasks(const std::string& id, size_t stage, uint64_t number) {
  const auto entry = MR_TRY(registry_.get(table_name("job-lists", id, stage, number)));
  if (!entry) return make_error(Code::kNotFound, "job {} has no list {} of stage {}", id, number, stage);
  return decode_tasks(entry->value);
}

Result<std::vector<Task>> JobBook::all_tasks(const std::string& id, size_t stage) {
  std::vector<Task> all;
  for (const cluster::Entry& entry : MR_TRY(registry_.list(fmt::format("job-lists/{}/{}/", id, stage)))) {
    std::vector<Task> some = MR_TRY(decode_tasks(entry.value));
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

Result<RankTable> JobBook::ranks(const std::string& id, size_t stage) {
  const auto entry = MR_TRY(registry_.get(fmt::format("job-ranks/{}/{}", id, stage)));
  if (!entry) return RankTable();
  RankTable table = MR_TRY(decode_ranks(entry->value));
  table.revision = entry->revision;
  return table;
}

Result<bool> JobBook::replace_ranks(const std::string& id, size_t stage, RankTable& table) {
  const auto swapped =
      MR_TRY(registry_.swap(fmt::format("job-ranks/{}/{}", id, stage), table.revision, encode(table)));
  if (swapped) table.revision = *swapped;
  return swapped.has_value();
}

Status JobBook::note_log(const std::string& id, size_t stage, const std::string& task,
                         std::string_view text) {
  const std::string name = fmt::format("job-logs/{}/{}-{}", id, stage, task);
  const auto known = MR_TRY(registry_.get(name));
  if (!known && MR_TRY(registry_.list(fmt::format("job-logs/{}/", id))).size() >= kMostLogs) return {};
  if (text.size() > kMostLogBytes) text.remove_prefix(text.size() - kMostLogBytes);
  // Somebody faster has said as much.
  MR_TRY(registry_.swap(name, known ? known->revision : 0, std::string(text)));
  return {};
}

Result<std::map<std::string, std::string>> JobBook::logs(const std::string& id) {
  std::map<std::string, std::string> logs;
  const std::string prefix = fmt::format("job-logs/{}/", id);
  for (cluster::Entry& entry : MR_TRY(registry_.list(prefix)))
    logs[entry.name.substr(prefix.size())] = std::move(entry.value);
  return logs;
}

}  // namespace millrace::jobs
