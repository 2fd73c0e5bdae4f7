// Lists inputs, pairs them with outputs.
#include "jobs/plan.h"

#include <set>

#include "shard/names.h"
#include "transfer/select.h"

namespace millrace::jobs {

namespace {

Result<std::vector<transfer::Choice>> choose_inputs(transfer::Stores& stores, const Description& job) {
  std::vector<transfer::Choice> all;
  const auto recursion = job.recursive ? transfer::Recursion::kYes : transfer::Recursion::kNo;
  for (const std::string& input : job.inputs) {
    for (const std::string& one : MR_TRY(shard::expand_braces(input))) {
      const transfer::Location location = MR_TRY(stores.find(one));
      for (transfer::Choice& choice : MR_TRY(transfer::choose_objects(location, recursion)))
        all.push_back(std::move(choice));
      if (all.size() > kMostJobTasks)
        return make_error(Code::kTooLarge, "the job has more than {} inputs", kMostJobTasks)
            .with_hint("start several jobs, each with some of the inputs");
    }
  }
  return all;
}

std::string address_of(const transfer::Location& object) {
  return fmt::format("mr://{}/{}", object.bucket, object.key);
}

// Shards in the order in which the one-process tools take them.
Result<std::vector<Task>> shards_in_order(transfer::Stores& stores, const Description& job) {
  if (job.recursive)
    return make_error(Code::kInvalid, "a job of kind {} takes shards by their names, not below a prefix",
                      kind_name(job.kind))
        .with_hint("for example mr://train/train-*.tar");
  std::vector<Task> tasks;
  for (std::string& name : MR_TRY(shard::expand_names(job.inputs, &stores)))
    tasks.push_back({std::move(name), "", 0, tasks.size()});
  return tasks;
}

Result<std::vector<Task>> pair_up(transfer::Stores& stores, const Description& job) {
  std::vector<Task> tasks;
  std::set<std::string> outputs;
  for (const transfer::Choice& choice : MR_TRY(choose_inputs(stores, job))) {
    Task task{address_of(choice.location), "", choice.size, tasks.size()};
    if (has_output(job.kind)) {
      const size_t slash = choice.location.key.rfind('/');
      const std::string name = job.recursive || !choice.relative.empty()
                                   ? choice.relative
                                   : choice.location.key.substr(slash == std::string::npos ? 0 : slash + 1);
      task.output = fmt::format("{}{}{}", job.output, job.output.ends_with('/') ? "" : "/", name);
      if (task.output == task.input)
        return make_error(Code::kInvalid, "{} would be its own output", task.input)
            .with_hint("write to another prefix");
      if (!outputs.insert(task.output).second)
        return make_error(Code::kInvalid, "two inputs would become {}", task.output)
            .with_hint("start a job for each of the prefixes, or give them together with -r");
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

}  // namespace

std::string kept_prefix(const Description& job, const std::string& id) {
  const auto address = parse_address(job.output);
  return fmt::format("mr://{}/.millrace-jobs/{}/", address ? address->bucket : "", id);
}

std::string mapped_name(const Description& job, const std::string& id, uint64_t number) {
  return fmt::format("{}map-{:07}.tar", kept_prefix(job, id), number);
}

std::string sorted_pattern(const Description& job, const std::string& id) {
  return kept_prefix(job, id) + "sorted-%07d.tar";
}

bool is_output(const Description& job, std::string_view key) {
  const auto address = parse_address(job.output);
  if (!address) return false;
  const std::string_view pattern = address->key;
  const size_t percent = pattern.find('%');
  if (percent == std::string_view::npos) return key.starts_with(pattern);
  const size_t end = pattern.find('d', percent);
  return key.starts_with(pattern.substr(0, percent)) &&
         (end == std::string_view::npos || key.ends_with(pattern.substr(end + 1)));
}

Result<Plan> plan_job(transfer::Stores& stores, const Description& job, const std::string& id) {
  Plan plan;
  const bool in_order = is_of_ranks(job.kind) || job.kind == Kind::kMapReduce;
  plan.tasks = in_order ? MR_TRY(shards_in_order(stores, job)) : MR_TRY(pair_up(stores, job));
  if (plan.tasks.empty()) return make_error(Code::kNotFound, "the job has no inputs");
  if (job.kind == Kind::kMapReduce) {
    for (Task& task : plan.tasks) task.output = mapped_name(job, id, task.number);
  }
  plan.stage.name = job.kind == Kind::kMapReduce ? "map" : kind_name(job.kind);
  plan.stage.kind = is_of_ranks(job.kind) ? StageKind::kRanks : StageKind::kTasks;
  plan.stage.tasks = plan.tasks.size();
  for (const Task& task : plan.tasks) plan.stage.bytes += task.size;
  return plan;
}

Result<std::vector<NextStage>> plan_next(const Job& job, const Sums& sums) {
  if (job.description.kind != Kind::kMapReduce || job.stages.size() == 3) return std::vector<NextStage>();
  NextStage next;
  if (job.stages.size() == 1) {
    next.stage.name = "sort";
    next.stage.kind = StageKind::kRanks;
    next.stage.tasks = job.stages[0].tasks;
    const auto written = sums.find("bytes_out");
    next.stage.bytes =
        written == sums.end() ? 0 : static_cast<uint64_t>(std::max<int64_t>(written->second, 0));
    return std::vector<NextStage>{std::move(next)};
  }
  const auto shards = sums.find("shards");
  if (shards == sums.end() || shards->second < 1 || static_cast<uint64_t>(shards->second) > kMostJobTasks)
    return make_error(Code::kTooLarge, "the sorted records are {} shards; 1 to {} are possible",
                      shards == sums.end() ? 0 : shards->second, kMostJobTasks)
        .with_hint("make them larger with --max-bytes");
  const auto sorted = MR_TRY(shard::OutputName::parse(sorted_pattern(job.description, job.id)));
  const auto output = MR_TRY(shard::OutputName::parse(job.description.output));
  for (uint64_t number = 0; number < static_cast<uint64_t>(shards->second); ++number)
    next.tasks.push_back({sorted.at(number), output.at(number), 0, number});
  next.stage.name = "reduce";
  next.stage.tasks = next.tasks.size();
  return std::vector<NextStage>{std::move(next)};
}

}  // namespace millrace::jobs
