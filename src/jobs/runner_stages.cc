// From stage to stage, how jobs end, and what people ask for.
#include <utility>

#include "base/clock.h"
#include "jobs/runner.h"
#include "net/digest.h"
#include "transfer/objects.h"

namespace millrace::jobs {

namespace {

constexpr int kMostSwaps = 20;
constexpr size_t kSecretBytes = 32;

}  // namespace

// -----------------------------------------------------------------------------------------

Status JobRunner::finish_stage(Job& job, const Sums& sums, uint64_t failed) {
  if (failed > 0)
    return end_job(job, JobState::kFailed,
                   fmt::format("{} of {} tasks failed", failed, job.stages.back().tasks));
  auto planned = plan_next(job, sums);
  if (!planned) return end_job(job, JobState::kFailed, planned.error().message());
  if (planned->empty()) return end_job(job, JobState::kDone, "");
  NextStage& next = planned->front();
  next.stage.tables = MR_TRY(book_.add_stage(job.id, job.stages.size(), next.tasks));
  Job moved = job;
  moved.stages.push_back(next.stage);
  moved.staged_ms = wall_ms();
  if (MR_TRY(book_.replace(moved))) log_.info("a job goes on", "job", job.id, "stage", next.stage.name);
  steps_.wake();
  return {};
}

Status JobRunner::end_job(Job& job, JobState state, std::string message) {
  // A failed job may go on: what it has made between its stages stays for that.
  if (state != JobState::kFailed) MR_TRY(clean_up(job));
  Job ended = job;
  ended.state = state;
  ended.message = std::move(message);
  ended.finished_ms = wall_ms();
  if (!MR_TRY(book_.replace(ended))) return {};
  log_.info("a job ended", "job", job.id, "state", state_name(state), "message", ended.message);
  steps_.wake();
  return {};
}

// Uploads that killed workers left open, and what is kept between stages.
Status JobRunner::clean_up(const Job& job) {
  if (!has_output(job.description.kind)) return {};
  const transfer::Location output = MR_TRY(stores_.find(job.description.output));
  const std::string pattern = output.key.substr(0, output.key.find('%'));
  auto uploads = transfer::list_uploads(output.with_key(pattern));
  if (uploads) {
    for (const transfer::UploadSummary& upload : *uploads) {
      if (upload.begun_ms < job.created_ms || !is_output(job.description, upload.key)) continue;
      static_cast<void>(transfer::abort_upload(output.with_key(upload.key), upload.id));
    }
  }
  if (job.description.kind != Kind::kMapReduce) return {};
  const transfer::Location kept = MR_TRY(stores_.find(kept_prefix(job.description, job.id)));
  for (const transfer::UploadSummary& upload : MR_TRY(transfer::list_uploads(kept)))
    static_cast<void>(transfer::abort_upload(kept.with_key(upload.key), upload.id));
  return transfer::list_objects(kept, transfer::Depth::kAll, [&](transfer::Listing& page) -> Status {
    std::vector<std::string> keys;
    for (transfer::ObjectSummary& object : page.objects) {
      keys.push_back(std::move(object.key));
      if (keys.size() < transfer::kMostRemovals) continue;
      MR_TRY(transfer::remove_objects(kept, keys));
      keys.clear();
    }
    return keys.empty() ? Status() : transfer::remove_objects(kept, keys);
  });
}

Status JobRunner::step_stopping(Job& job, Local& local) {
  if (!std::exchange(local.is_cancelled, true)) cancel(job.id);
  local.ranks.reset();
  if (under_way(job.id) > 0) return {};
  static_cast<void>(take_finished(job.id));
  bool claimed = false;
  if (job.stages.back().kind == StageKind::kTasks) {
    for (KnownTable& table : MR_TRY(book_.tables(job.id, job.stage()))) {
      const auto released = table.table.release(
          [this](const std::string& claimant) { return claimant == self_ || is_gone(claimant); });
      claimed = claimed || table.table.count().claimed > 0;
      if (released > 0 && !MR_TRY(book_.replace_table(job.id, job.stage(), table))) claimed = true;
    }
  } else {
    RankTable table = MR_TRY(book_.ranks(job.id, job.stage()));
    bool changed = false;
    for (Rank& rank : table.ranks) {
      const bool open = rank.state == RankState::kInvited || rank.state == RankState::kListening;
      if (!open) continue;
      if (rank.claimant == self_ || is_gone(rank.claimant)) {
        rank.state = RankState::kFailed;
        rank.message = "stopped";
        changed = true;
      } else {
        claimed = true;
      }
    }
    if (changed && !MR_TRY(book_.replace_ranks(job.id, job.stage(), table))) claimed = true;
  }
  local.known.clear();
  return claimed ? Status() : end_job(job, JobState::kStopped, "");
}

// ---------------------------------------------------------------------------------------

Result<Job> JobRunner::start_job(Description description) {
  MR_TRY(check(description));
  const bool has_commands = description.kind == Kind::kMap || description.kind == Kind::kMapReduce;
  if (has_commands) MR_TRY(shard::check_confinement(options_.confinement));
  Job job;
  job.id = JobBook::make_job_id();
  job.description = std::move(description);
  Plan plan = MR_TRY(plan_job(stores_, job.description, job.id));
  job.stages.push_back(plan.stage);
  Job made = MR_TRY(book_.create(std::move(job), plan.tasks));
  log_.info("a job began", "job", made.id, "kind", kind_name(made.description.kind), "tasks",
            plan.stage.tasks);
  look_again();
  return made;
}

Result<Job> JobRunner::stop_job(const std::string& id) {
  for (int attempt = 0; attempt < kMostSwaps; ++attempt) {
    Job job = MR_TRY(book_.get(id));
    if (job.state == JobState::kStopping) return job;
    if (has_ended(job.state))
      return make_error(Code::kInvalid, "job {} is {} already", id, state_name(job.state));
    job.state = JobState::kStopping;
    if (!MR_TRY(book_.replace(job))) continue;
    look_again();
    return job;
  }
  return make_error(Code::kUnavailable, "job {} changes too fast", id).with_hint("try again");
}

Result<Job> JobRunner::retry_job(const std::string& id) {
  Job job = MR_TRY(book_.get(id));
  if (job.state != JobState::kFailed && job.state != JobState::kStopped)
    return make_error(Code::kInvalid, "job {} is {}", id, state_name(job.state))
        .with_hint("only jobs that failed or were stopped can be tried again");
  if (job.state == JobState::kStopped && job.stages.size() > 1)
    return make_error(Code::kInvalid, "job {} was stopped, and what it had made is gone", id)
        .with_hint("start it anew");
  if (job.stages.back().kind == StageKind::kTasks) {
    for (KnownTable& table : MR_TRY(book_.tables(id, job.stage()))) {
      if (table.table.retry() > 0 && !MR_TRY(book_.replace_table(id, job.stage(), table)))
        return make_error(Code::kUnavailable, "somebody else changed job {}", id).with_hint("try again");
    }
  } else {
    RankTable table = MR_TRY(book_.ranks(id, job.stage()));
    table.failures = 0;
    ++table.attempt;
    table.ranks.clear();
    for (const Neighbour& node : surroundings_.neighbours())
      table.ranks.push_back({node.claimant, "", {}, ""});
    table.secret = net::to_hex(net::random_bytes(kSecretBytes));
    MR_TRY(book_.replace_ranks(id, job.stage(), table));
  }
  job.state = JobState::kRunning;
  job.message.clear();
  job.finished_ms = 0;
  if (!MR_TRY(book_.replace(job)))
    return make_error(Code::kUnavailable, "somebody else changed job {}", id).with_hint("try again");
  look_again();
  return job;
}

Status JobRunner::remove_job(const std::string& id) {
  const Job job = MR_TRY(book_.get(id));
  if (has_ended(job.state)) MR_TRY(clean_up(job));
  return book_.remove(id);
}

}  // namespace millrace::jobs
